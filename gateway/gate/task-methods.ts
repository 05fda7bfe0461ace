/**
 * Speaks of tasks in both eras of the protocol: those of MCP 2025-11-25, and the extension
 * `io.modelcontextprotocol/tasks` of 2026-07-28. What a task is, `tasks.ts` says.
 *
 * 1. A call that waits for a person is `working`: `input_required` would ask the client for something that only a
 *    person elsewhere can give.
 * 2. A task ends with the result that the call itself would have been answered with. In 2025-11-25 a result with
 *    `isError` is of a task that has `failed`; in the extension only an error of the protocol would be.
 * 3. No client is told of a task that it could not ask about: in 2025-11-25 its call has to carry `task`, in the
 *    extension its request has to declare it.
 */
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  RELATED_TASK_META_KEY,
  type Server,
  type ServerCapabilities,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import type { Caller, Exchange, GateCalls, Told } from './calls.ts';
import { CALL_META, pendingReply, statusOf } from './replies.ts';
import type { Cancelled, GateTasks, TaskView } from './tasks.ts';

export type Era = 'legacy' | 'modern';

/** Name of the extension (SEP-2663). */
const EXTENSION = 'io.modelcontextprotocol/tasks';
/** Key in `_meta` of a task that was just made (2025-11-25): what a model reads meanwhile. */
const IMMEDIATE_META = 'io.modelcontextprotocol/model-immediate-response';

export const TASK_CAPABILITIES: Readonly<Record<Era, ServerCapabilities>> = {
  legacy: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
  modern: { extensions: { [EXTENSION]: {} } },
};

const Declared = z.object({
  [CLIENT_CAPABILITIES_META_KEY]: z.object({ extensions: z.object({ [EXTENSION]: z.looseObject({}) }) }),
});

/** True if the client takes a task in place of a result (2026-07-28): each request says so anew. */
export function takesTasks({ mcpReq }: ServerContext): boolean {
  return Declared.safeParse(mcpReq.envelope).success;
}

export interface TaskMethods {
  readonly caller: Caller;
  readonly tasks: GateTasks;
  readonly calls: Pick<GateCalls, 'find' | 'untilEnded'>;
  readonly exchangeOf: (context: ServerContext) => Exchange;
  readonly inWords: <T>(act: () => Promise<T>) => Promise<T>;
}

const MOST_TEXT = 1_000;
const Named = z.object({ taskId: z.string().max(MOST_TEXT) });
const Listed = z.object({ cursor: z.string().max(MOST_TEXT).optional() });

export function serveTasks(server: Server, era: Era, methods: TaskMethods): void {
  if (era === 'legacy') serveLegacy(server, methods);
  else serveExtension(server, methods);
}

// MCP 2025-11-25, "Tasks".

function serveLegacy(server: Server, { caller, tasks, calls, exchangeOf, inWords }: TaskMethods): void {
  server.setRequestHandler('tasks/get', { params: Named }, async ({ taskId }) => {
    const task = await inWords(async () => await tasks.of(caller, taskId));
    return task === undefined ? refuse(unknownTask(taskId)) : legacyTask(task);
  });
  server.setRequestHandler('tasks/result', { params: Named }, async ({ taskId }, context) => {
    const exchange = exchangeOf(context);
    const end = await inWords(async () => {
      const found = await calls.find(caller, taskId);
      return found === undefined ? refuse(unknownTask(taskId)) : await calls.untilEnded(caller, found, exchange);
    });
    if (end === undefined) throw new ProtocolError(ProtocolErrorCode.InternalError, STOPPING);
    return { ...end, _meta: { ...end._meta, [RELATED_TASK_META_KEY]: { taskId } } };
  });
  server.setRequestHandler('tasks/list', { params: Listed }, async ({ cursor }) => {
    const { tasks: found, next } = await inWords(async () => {
      try {
        return await tasks.list(caller, cursor);
      } catch (error) {
        if (cursor === undefined || !(error instanceof CountersignError) || error.code !== 'USAGE') throw error;
        return refuse(invalid('No list of tasks goes on at this cursor. Begin it anew, without one.'));
      }
    });
    return { tasks: found.map(legacyTask), ...(next !== undefined && { nextCursor: next }) };
  });
  server.setRequestHandler('tasks/cancel', { params: Named }, async ({ taskId }, context) => {
    const exchange = exchangeOf(context);
    const cancelled = await inWords(async () => await tasks.cancel(caller, taskId, exchange));
    return cancelled.kind === 'cancelled' ? legacyTask(cancelled.task) : refuse(uncancelled(cancelled, taskId));
  });
}

const STOPPING = 'This request ends, and the call goes on: ask for the result of its task again.';

/** Answer to a call that carried `task`. The SDK lets no result of a call pass without `content`, which stays empty. */
export function legacyBegun(task: TaskView): CallToolResult {
  const pending = { reference: task.taskId, status: 'running' } as const;
  const { _meta: meta, content } = pendingReply(pending);
  const [words] = content.map((part) => (part.type === 'text' ? part.text : ''));
  return { content: [], task: legacyTask(task), _meta: { ...meta, [IMMEDIATE_META]: words } };
}

function legacyTask({ taskId, startedAt, updatedAt, keptMs, askAgainMs, words, end }: TaskView) {
  const status = end === undefined ? 'working' : legacyStatus(end);
  return {
    taskId,
    status,
    // The tool's words stand in the result alone.
    ...(status !== 'completed' && { statusMessage: end === undefined ? words : wordsOf(end) }),
    createdAt: startedAt.toISOString(),
    lastUpdatedAt: updatedAt.toISOString(),
    ttl: keptMs,
    pollInterval: askAgainMs,
  };
}

function legacyStatus(end: CallToolResult): string {
  if (statusOf(end) === 'cancelled') return 'cancelled';
  return end.isError === true ? 'failed' : 'completed';
}

// The extension for MCP 2026-07-28 (SEP-2663).

function serveExtension(server: Server, { caller, tasks, calls, exchangeOf, inWords }: TaskMethods): void {
  server.setRequestHandler('tasks/get', { params: Named }, async ({ taskId }, context) => {
    assertDeclared(context);
    const exchange = exchangeOf(context);
    const task = await inWords(async () => await tasks.whole(caller, taskId, exchange));
    return task === undefined ? refuse(unknownTask(taskId)) : extensionTask(task);
  });
  server.setRequestHandler('tasks/update', { params: Named }, async ({ taskId }, context) => {
    assertDeclared(context);
    // No task of the gate ever asks its client for input, so there is nothing that an answer could belong to.
    const found = await inWords(async () => await calls.find(caller, taskId));
    return found === undefined ? refuse(unknownTask(taskId)) : {};
  });
  server.setRequestHandler('tasks/cancel', { params: Named }, async ({ taskId }, context) => {
    assertDeclared(context);
    const exchange = exchangeOf(context);
    const cancelled = await inWords(async () => await tasks.cancel(caller, taskId, exchange));
    // Cancelling is cooperative there: what cannot be cancelled goes on, and its task says so.
    if (cancelled.kind === 'unknown' || cancelled.kind === 'foreign') refuse(uncancelled(cancelled, taskId));
    return {};
  });
}

export function extensionBegun(task: TaskView, { _meta: meta }: CallToolResult): CallToolResult {
  return { ...extensionTask(task), resultType: 'task', content: [], _meta: meta };
}

function extensionTask({ taskId, startedAt, updatedAt, keptMs, askAgainMs, words, end }: TaskView) {
  const task = {
    taskId,
    createdAt: startedAt.toISOString(),
    lastUpdatedAt: updatedAt.toISOString(),
    ttlMs: keptMs,
    pollIntervalMs: askAgainMs,
  };
  if (end === undefined) return { ...task, status: 'working', statusMessage: words };
  if (statusOf(end) === 'cancelled') return { ...task, status: 'cancelled', statusMessage: wordsOf(end) };
  return { ...task, status: 'completed', result: { ...end, resultType: 'complete' } };
}

function assertDeclared(context: ServerContext): void {
  if (takesTasks(context)) return;
  throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [EXTENSION]: {} } } });
}

/** A call that will not be made has no task: its client learns why from an error. */
export function notBegun({ reply }: Told): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, wordsOf(reply), { [CALL_META]: reply._meta?.[CALL_META] });
}

function wordsOf({ content }: CallToolResult): string {
  const texts = content.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  return bounded(texts.join('\n'), MOST_TEXT);
}

function unknownTask(taskId: string): ProtocolError {
  return invalid(`No task of yours with id ${bounded(visible(taskId), 128)} is on record. This request ran nothing.`);
}

const NOT_CANCELLED = {
  'goes-on':
    'Nobody is asked about this call any more: it is under way, and may have been sent. It goes on, and its task will say what became of it.',
  over: 'This task has ended, so it cannot be cancelled. Its result says what became of the call.',
  foreign: 'Another client made this call. You may read its task; cancelling it is for that client.',
} as const;

function uncancelled({ kind }: Exclude<Cancelled, { kind: 'cancelled' }>, taskId: string): ProtocolError {
  return kind === 'unknown' ? unknownTask(taskId) : invalid(NOT_CANCELLED[kind]);
}

export function invalid(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

function refuse(error: ProtocolError): never {
  throw error;
}

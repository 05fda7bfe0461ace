/**
 * Reads that a server made a call a task (MCP 2025-11-25, "Tasks"), and asks it how far the task is and what became of
 * it, in the session in which the task was begun.
 *
 * It does not own when a task is polled (`domain/legacy-2025/tasks.ts`).
 * 1. It executes nothing: the task was begun by the one `tools/call` of its dispatch (INV-X1). Asking again is safe.
 * 2. A result is asked for only once the server has said that there is one: `tasks/result` would hold the connection
 *    till then.
 * 3. A failure that may pass says nothing of the task. Only the server's own word that it does not know the task, or
 *    its session, ends it.
 * 4. A completed task without its result is unknown: the result may say that the tool has failed (INV-X1).
 * 5. Everything returned is scrubbed (INV-S1), also of the ids of the task and its session, which find it again. Short
 *    ones can be guessed, and may be ordinary words or numbers: they are not looked for.
 * 6. Times of a server are hints: a number that makes no sense is left out.
 * 7. The SDK's client is left out: it has no tasks, and takes up no session without its own memory of the handshake.
 */
import { defined } from '../../../contracts/defined.ts';
import type { Config } from '../../../contracts/schemas/config.ts';
import type { RefusedTool, ToolDefinition } from '../../../contracts/schemas/tool.ts';
import { type Fields, isFields } from '../../../domain/shapes/inputs.ts';
import { bounded } from '../../../domain/text/escape.ts';
import type { Egress } from '../../egress/fetch.ts';
import type { Scrubber } from '../../scrubbing/scrubber.ts';
import { halfway, type Names, reasonOf, refusalIn, type Trace, unknown, whyStopped } from '../classify-failure.ts';
import { type Answered, executed, quoted, scrubberFor, secretIds } from '../classify-result.ts';
import { isSessionRefusal } from '../session-refusal.ts';
import { firstId, leaveSession, openWire, SessionTransport, startWaiting, withoutStandingStream } from '../session.ts';
import type { LegacyCalls, McpReach } from '../mcp-server.ts';
import type { CallEnding, ServerConnection, TaskId, ToolListing } from '../port.ts';
import { ownValue } from '../../kit/json.ts';

/** UTF-16 units, for each id. */
const LONGEST_ID = 2_048;
const LONGEST_MESSAGE = 200;

const STATUSES = ['working', 'input_required', 'completed', 'failed', 'cancelled'] as const;
type TaskStatus = (typeof STATUSES)[number];

interface TaskWord {
  readonly status: TaskStatus;
  readonly pollMs?: number;
  readonly ttlMs?: number;
  readonly message?: string;
}

interface TaskAnswer {
  readonly kind: 'result';
  readonly result: Readonly<Record<string, unknown>> & { readonly task: Fields };
}

/** True if a task was given instead of a result. A server that knows no tasks answers with the result all the same. */
export function isTask(trace: Trace): trace is Extract<Trace, { kind: 'answered' }> & { readonly answer: TaskAnswer } {
  return trace.kind === 'answered' && trace.session !== undefined && isTaskAnswer(trace.answer);
}

export function isTaskAnswer(answer: { readonly kind: string }): answer is TaskAnswer {
  if (!('result' in answer) || !isFields(answer.result)) return false;
  const { task, content } = answer.result;
  return isFields(task) && content === undefined;
}

export const begunTask: LegacyCalls['begunTask'] = (trace, names, scrubbing) => {
  if (!isTask(trace)) return undefined;
  const { task } = trace.answer.result;
  const { taskId } = task;
  const id = { taskId, ...trace.session };
  if (!isTaskId(id)) return halfway(names, 'task', 'it has no id by which it could be found again');
  const said = wordOf(task, scrubbing(secretsOf(id)));
  if (said === undefined) return unknown(names, 'the server made a task of it that has no status');
  const { status: _, ...word } = said;
  return { kind: 'task', id, ...word };
};

function isTaskId(id: { readonly taskId: unknown; readonly sessionId?: string }): id is TaskId {
  const { taskId, sessionId = '' } = id;
  if (typeof taskId !== 'string' || taskId === '') return false;
  return taskId.length <= LONGEST_ID && sessionId.length <= LONGEST_ID;
}

function secretsOf({ taskId, sessionId }: TaskId): string[] {
  return [taskId, sessionId].flatMap((id) => secretIds(id));
}

export function wordOf(task: Fields, scrub: Scrubber): TaskWord | undefined {
  const { status, statusMessage, pollInterval, ttl } = task;
  const known = STATUSES.find((each) => each === status);
  if (known === undefined) return undefined;
  const message = typeof statusMessage === 'string' ? bounded(quoted(scrub, statusMessage), LONGEST_MESSAGE) : '';
  return {
    status: known,
    ...(isTime(pollInterval) ? { pollMs: pollInterval } : {}),
    ...(isTime(ttl) ? { ttlMs: ttl } : {}),
    ...(message === '' ? {} : { message }),
  };
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}

// Asking how far a task is.

const ASK_MS = 10_000;
const RESULT_MS = 30_000;
/** JSON-RPC 2.0 §5.1: the server does not know an id (MCP 2025-11-25, tasks, "Protocol Errors"), or a method. */
const NOT_KNOWN = new Set([-32_602, -32_601, -32_600]);

export interface TaskQuestion extends Answered {
  readonly id: TaskId;
  readonly tool: string;
  /** A task that has not ended is to be cancelled. */
  readonly giveUp: boolean;
  /** Nobody asks after this question, whatever comes of it: the session is ended. */
  readonly isLast: boolean;
}

type Ended = Extract<TaskStatus, 'completed' | 'failed'>;

export type TaskReport =
  | { readonly kind: 'working'; readonly pollMs?: number; readonly message?: string }
  | {
      readonly kind: 'unreached';
      readonly reason: string;
      readonly unauthorized?: true;
      readonly retryAfterMs?: number;
      /** The server has said that the task has ended so; its result may still be had. */
      readonly ended?: Ended;
    }
  /** Nobody will say what became of the task. `completed` means that, by the server's word, it was done. */
  | { readonly kind: 'lost'; readonly reason: string; readonly completed?: true }
  | { readonly kind: 'over'; readonly ending: CallEnding };

export type TaskServer = ReturnType<typeof createMcpTaskServer>;

interface Asking extends McpReach {
  readonly question: TaskQuestion;
  readonly names: Names;
  readonly scrub: Scrubber;
  readonly link: TaskLink;
}

export function createMcpTaskServer(reach: McpReach) {
  return {
    async ask(connection: ServerConnection, question: TaskQuestion): Promise<TaskReport> {
      const { id, signal, tool } = question;
      const scrub = scrubberFor(connection, secretsOf(id));
      const names: Names = { server: connection.name, tool, quote: (text) => quoted(scrub, text) };
      const link = await openTaskLink(connection, question, reach.egress);
      let report: TaskReport | undefined;
      try {
        report = await reportOf({ ...reach, question, names, scrub, link });
      } finally {
        const goesOn = report === undefined || report.kind === 'working' || report.kind === 'unreached';
        // Another token may be accepted after this one was refused.
        const isRefused = report?.kind === 'unreached' && report.unauthorized === true;
        // The poll was withdrawn: its caller may not hear of the result, and asks once more.
        await link.close((goesOn && !question.isLast) || isRefused || signal.aborted ? 'kept' : undefined);
      }
      return report;
    },
  };
}

async function reportOf(asking: Asking): Promise<TaskReport> {
  const { question, link } = asking;
  const first = await look(asking);
  if (first.kind !== 'word') return first;
  if (first.word.status !== 'input_required' && !(first.word.status === 'working' && question.giveUp))
    return await followed(asking, first.word);
  const answer = await link.ask('tasks/cancel', ASK_MS);
  if (answer.kind === 'failed') return unanswered(asking, answer);
  const said = answer.answer.kind === 'error' ? undefined : wordOf(answer.answer.result, asking.scrub);
  if (said !== undefined && isOver(said)) return await followed(asking, said);
  if (answer.answer.kind === 'error') {
    // The server refused to cancel: the task may have ended in this very moment.
    const last = await look(asking);
    if (last.kind === 'unreached') return last;
    if (last.kind === 'word' && isOver(last.word)) return await followed(asking, last.word);
  }
  const why =
    first.word.status === 'input_required'
      ? 'it asks for input in the middle of a task, which is not passed on to people'
      : 'nobody waits for it any longer';
  const heard =
    said === undefined ? 'and did not say that it did' : `and says that it is ${asking.names.quote(said.status)}`;
  return { kind: 'lost', reason: `${why}; the server was asked to cancel the task, ${heard}` };
}

type Over = TaskWord & { readonly status: Ended };

function isOver(word: TaskWord): word is Over {
  return word.status === 'completed' || word.status === 'failed';
}

async function followed(asking: Asking, word: TaskWord): Promise<TaskReport> {
  const { status, pollMs, message } = word;
  if (isOver(word)) return await resultIn(asking, word);
  const why = message === undefined ? '' : ` (${message})`;
  if (status === 'cancelled') return { kind: 'lost', reason: `the server says that the task was cancelled${why}` };
  return { kind: 'working', ...defined({ pollMs, message }) };
}

type Look = Exclude<TaskReport, { kind: 'working' | 'over' }> | { readonly kind: 'word'; readonly word: TaskWord };

async function look(asking: Asking): Promise<Look> {
  const { link, names, scrub } = asking;
  const trace = await link.ask('tasks/get', ASK_MS);
  if (trace.kind === 'failed') return unanswered(asking, trace);
  if (trace.answer.kind === 'error') {
    const { code, message } = trace.answer;
    const reason = `JSON-RPC error ${code}: ${names.quote(message)}`;
    return NOT_KNOWN.has(code)
      ? { kind: 'lost', reason: `the server does not know the task any more (${reason})` }
      : { kind: 'unreached', reason };
  }
  const word = wordOf(trace.answer.result, scrub);
  return word === undefined ? { kind: 'lost', reason: 'the server gives the task no status' } : { kind: 'word', word };
}

/** A lost session takes its tasks with it; any other failure may pass. */
function unanswered(
  { names, question: { id } }: Pick<Asking, 'names' | 'question'>,
  trace: Extract<Trace, { kind: 'failed' }>,
): Exclude<TaskReport, { kind: 'working' | 'over' }> {
  const { error, exchange, stopped } = trace;
  if (exchange.forbidden !== undefined) return { kind: 'unreached', reason: exchange.forbidden.message };
  const refusal = refusalIn(error, exchange, names.quote);
  // 404 is the status that the spec names (MCP 2025-11-25, "Session Management"); other servers say it in words.
  const isGone = isSessionRefusal(trace, id) || (exchange.status === 404 && id.sessionId !== undefined);
  if (stopped === undefined && isGone)
    return { kind: 'lost', reason: `the server does not know its session any more (${refusal?.reason ?? 'HTTP 404'})` };
  const reason =
    stopped === undefined
      ? (refusal?.reason ?? reasonOf(error, 'no answer that could be read'))
      : whyStopped(stopped, 'the question');
  const unauthorized = refusal?.code === 'TOOL_UNAUTHORIZED' ? (true as const) : undefined;
  return { kind: 'unreached', reason, ...defined({ unauthorized, retryAfterMs: exchange.retryAfterMs }) };
}

async function resultIn(asking: Asking, { status, message }: Over): Promise<TaskReport> {
  const { link, names, question, artifacts, scrub } = asking;
  const trace = await link.ask('tasks/result', RESULT_MS);
  if (trace.kind === 'failed') {
    const { tooLarge, status: http, streamed } = trace.exchange;
    if (tooLarge === true && (streamed === true || http === 200)) return lostResult(status, TOO_LARGE);
    const gone = unanswered(asking, trace);
    return gone.kind === 'unreached' ? { ...gone, ended: status } : lostResult(status, gone.reason);
  }
  if (trace.answer.kind === 'error') {
    const { code, message: text } = trace.answer;
    const reason = `JSON-RPC error ${code}: ${names.quote(text)}`;
    // For a call that has failed with an error, the error is the result (MCP 2025-11-25, tasks, "Result Retrieval").
    if (status === 'failed')
      return { kind: 'over', ending: failedWithout(message === undefined ? reason : `${message}; ${reason}`) };
    return NOT_KNOWN.has(code) ? lostResult(status, reason) : { kind: 'unreached', reason, ended: status };
  }
  // A failed task has failed, whatever its result says of itself.
  const raw = status === 'failed' ? { ...trace.answer.result, isError: true } : trace.answer.result;
  return { kind: 'over', ending: await executed(raw, question, { artifacts, scrub, names }) };
}

const TOO_LARGE = 'its result is larger than this service reads, and is lost';

/** The server has said how the task ended, and will not give its result. */
export function lostResult(status: Ended, reason: string): Extract<TaskReport, { kind: 'lost' | 'over' }> {
  return status === 'failed'
    ? { kind: 'over', ending: failedWithout(reason) }
    : { kind: 'lost', reason, completed: true };
}

function failedWithout(reason: string): CallEnding {
  return { kind: 'executed', isError: true, result: { content: [{ type: 'text', text: reason }] } };
}

type TaskLink = Awaited<ReturnType<typeof openTaskLink>>;

async function openTaskLink(connection: ServerConnection, { id, signal }: TaskQuestion, egress: Egress) {
  const wire = openWire({ egress, server: connection });
  const transport = new SessionTransport(connection, wire, {
    fetch: withoutStandingStream(wire.fetch),
    ...defined({ sessionId: id.sessionId, protocolVersion: id.version }),
  });
  // `send` throws the error; without a listener the transport is as silent.
  transport.onerror = () => undefined;
  await transport.start();
  let next = firstId();
  return {
    async ask(method: 'tasks/get' | 'tasks/result' | 'tasks/cancel', ms: number): Promise<Trace> {
      const over = new AbortController();
      const answered = new Promise<void>((resolve) => {
        transport.onAnswer = resolve;
        over.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      const waiting = startWaiting(transport, signal, (why) => over.abort(new Error(`ended: ${why}`)), {
        atMostMs: ms,
      });
      let error: unknown;
      try {
        transport.answer = undefined;
        const request = { jsonrpc: '2.0', id: next, method, params: { taskId: id.taskId } } as const;
        next += 1;
        const sent = transport.send(request, { requestSignal: over.signal });
        await Promise.all([sent, answered]);
      } catch (failure) {
        error = failure;
      } finally {
        waiting.over();
      }
      const { answer } = transport;
      if (answer !== undefined) return { kind: 'answered', answer };
      const stopped = waiting.stopped();
      return { kind: 'failed', error, stopped, reached: wire.reached(), exchange: wire.exchange() };
    },
    /** @param kept the task is not over: its session is left open */
    close: (kept?: 'kept'): Promise<void> => leaveSession(transport, wire, kept),
  };
}

// Listed tools that can, or must, be called as tasks. A list for a caller that does not wait for tasks leaves out those
// that must. One that can is called as one only if the operator wants it (`servers.NAME.tasks.optional`).

const NOBODY_WAITS =
  'it can only be called as a task, and tasks are not waited for: configure `tasks` of its server ({} is enough), and start the run, or refresh the catalog, again';

/** True for runs that are prepared, and catalog lists that are made, from now on. */
export function waitsForTasks({ servers }: Pick<Config, 'servers'>): boolean {
  return Object.values(servers).some(({ tasks }) => tasks !== undefined);
}

/** @param waits true if the caller of the list waits for tasks */
export function withTaskSupport(
  { servers }: Pick<Config, 'servers'>,
  server: string,
  listing: ToolListing,
  waits: boolean,
): ToolListing {
  const optional = ownValue(servers, server)?.tasks?.optional ?? [];
  const tools: ToolDefinition[] = [];
  const refused: RefusedTool[] = [...listing.refused];
  for (const tool of listing.tools) {
    const { taskSupport, ...plain } = tool;
    if (taskSupport === 'required' && !waits) refused.push({ name: tool.name, reason: NOBODY_WAITS });
    else tools.push(taskSupport === 'optional' && !(waits && optional.includes(tool.name)) ? plain : tool);
  }
  return { ...listing, tools, refused };
}

/**
 * Serves a server of MCP 2025-11-25 that works on calls as tasks and misbehaves as told. It counts the tasks that it
 * began.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { defined } from '../../../contracts/defined.ts';
import { type CallExchange, type Fields, type RawServerScript, startRawServer } from './raw-server.ts';

export interface ServedTask {
  readonly id: string;
  readonly session: string;
  readonly argument: Fields;
  /** Number of times that the task was polled. */
  polls: number;
  cancelled: boolean;
}

/** The server's answer about a task; `undefined` means that it knows none. */
type Word = (task: ServedTask) => Fields | undefined;

export interface TaskScript {
  readonly support?: 'required' | 'optional';
  /** Capabilities of the session; default: with tasks. */
  readonly capabilities?: Fields;
  /** Id of every task; default: a new one each. */
  readonly taskId?: string;
  /** Fields of a task when it begins. */
  readonly begins?: Fields;
  readonly get?: Word;
  /** Makes a result, or a JSON-RPC error. */
  readonly result?: (task: ServedTask) => { readonly result: Fields } | { readonly error: Fields };
  readonly cancel?: Word;
  /** Handles a request before anything else; returns true if it has answered. */
  readonly intercept?: (method: string, response: ServerResponse, request: IncomingMessage, id: unknown) => boolean;
  /** Answers as an event stream. */
  readonly streams?: true;
  /** Lists its tool only to clients that can be asked, like the reference server. */
  readonly asks?: true;
}

export interface TaskServer {
  readonly url: string;
  readonly tasks: readonly ServedTask[];
  /** Accepted `tools/call` requests, as tasks or not. */
  readonly calls: readonly Fields[];
  /** Method and session of every request, in order. */
  readonly asked: readonly { readonly method: string; readonly session: string | undefined }[];
  /** Number of open connections that wait for an answer. */
  waiting(): number;
  become(script: TaskScript): void;
  /** Forgets all tasks and sessions. */
  restart(): void;
  close(): Promise<void>;
}

const TAKES_TASKS = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } };
const DUG = { result: { content: [{ type: 'text', text: 'dug' }] } };

export async function startTaskServer(first: TaskScript = {}): Promise<TaskServer> {
  let script = first;
  const tasks: ServedTask[] = [];
  const calls: Fields[] = [];
  const known = new Set<string>();

  const answer = ({ id, json }: CallExchange, fields: object): void =>
    json(JSON.stringify({ jsonrpc: '2.0', id, ...fields }));
  const taskOf = ({ params }: CallExchange): ServedTask | undefined => tasks.find(({ id }) => id === params['taskId']);
  const timed = (task: ServedTask): Fields => ({ taskId: task.id, createdAt: new Date().toISOString(), ttl: 600_000 });
  const about = (exchange: CallExchange, word: Word): void => {
    const task = taskOf(exchange);
    // A task belongs to its session, as in the SDK's own store.
    const isOurs = task !== undefined && known.has(task.id) && task.session === sessionOf(exchange.request);
    const said = isOurs ? word(task) : undefined;
    if (said === undefined || task === undefined)
      exchange.error(-32_602, `Task not found: ${String(exchange.params['taskId'])}`);
    else answer(exchange, { result: { ...timed(task), ...said } });
  };
  const dig = (exchange: CallExchange): void => {
    const { params } = exchange;
    if (!isShownTo(exchange.request)) return exchange.error(-32_602, 'Tool dig not found');
    calls.push(params);
    if (params['task'] === undefined)
      return answer(exchange, { result: { content: [{ type: 'text', text: 'dug at once' }] } });
    const id = script.taskId ?? `task-${randomUUID()}`;
    const session = sessionOf(exchange.request) ?? '';
    const task = { id, session, argument: exchange.arguments, polls: 0, cancelled: false };
    tasks.push(task);
    known.add(id);
    const begun = { ...timed(task), status: 'working', pollInterval: 10, ...script.begins };
    answer(exchange, { result: { task: begun } });
  };

  const methods: RawServerScript['methods'] = {
    'tasks/get': (exchange) =>
      about(exchange, (task) => {
        task.polls += 1;
        return (script.get ?? (() => ({ status: 'completed' })))(task);
      }),
    'tasks/cancel': (exchange) =>
      about(exchange, (task) => {
        task.cancelled = true;
        return (script.cancel ?? (() => ({ status: 'cancelled' })))(task);
      }),
    'tasks/result': (exchange) => {
      const task = taskOf(exchange);
      if (task === undefined) return exchange.status(500);
      answer(exchange, (script.result ?? (() => DUG))(task));
    },
    'tools/list': (exchange) => {
      const tool = {
        name: 'dig',
        inputSchema: { type: 'object' },
        execution: { taskSupport: script.support ?? 'required' },
      };
      answer(exchange, { result: { tools: isShownTo(exchange.request) ? [tool] : [] } });
    },
    'tools/call': dig,
  };
  const rawScript = (): RawServerScript => ({
    era: 'legacy',
    sessions: 'checked',
    capabilities: script.capabilities ?? TAKES_TASKS,
    methods,
    ...defined({ streams: script.streams }),
    intercept: (request, response, method, id) =>
      script.intercept?.(method ?? request.method ?? '', response, request, id) ?? false,
  });
  const server = await startRawServer(rawScript());
  /** A session began with what its client can do. */
  const isShownTo = (request: IncomingMessage): boolean =>
    script.asks === undefined || 'elicitation' in (server.clientOf(sessionOf(request) ?? '') ?? {});
  return {
    url: server.url,
    tasks,
    calls,
    get asked() {
      return server.seen.map(({ rpcMethod, httpMethod, headers }) => ({
        method: rpcMethod ?? httpMethod,
        session: sessionOf({ headers }),
      }));
    },
    waiting: server.waiting,
    become: (next) => {
      script = next;
      server.become(rawScript());
    },
    restart: () => {
      server.forget();
      known.clear();
    },
    close: server.close,
  };
}

function sessionOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const session = headers['mcp-session-id'];
  return typeof session === 'string' ? session : undefined;
}

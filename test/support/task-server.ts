/**
 * Serves a server of MCP 2025-11-25 that works on calls as tasks and misbehaves as told. It uses `node:http`
 * alone, so that it can break every rule that an SDK keeps. It counts the tasks that it began.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { listenOnLoopback } from './loopback-server.ts';

export interface ServedTask {
  readonly id: string;
  readonly session: string;
  readonly argument: Readonly<Record<string, unknown>>;
  /** Number of times that the task was polled. */
  polls: number;
  cancelled: boolean;
}

type Fields = Readonly<Record<string, unknown>>;
/** The server's answer about a task; `undefined` means that it knows none. */
type Word = (task: ServedTask) => Fields | undefined;

export interface TaskScript {
  readonly support?: 'required' | 'optional';
  /** Capabilities of the session; default: with tasks. */
  readonly capabilities?: Fields;
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

const SCHEMA = { type: 'object' };
const TAKES_TASKS = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } };

export async function startTaskServer(first: TaskScript = {}): Promise<TaskServer> {
  let script = first;
  let waiting = 0;
  const tasks: ServedTask[] = [];
  const calls: Fields[] = [];
  const asked: { method: string; session: string | undefined }[] = [];
  const sessions = new Set<string>();
  const known = new Set<string>();
  /** Sessions whose client can be asked. */
  const askable = new Set<string>();
  /** Session and id of every request. */
  const ids = new Set<string>();

  const answer = (
    response: ServerResponse,
    id: unknown,
    fields: Fields,
    headers: Record<string, string> = {},
  ): void => {
    const body = JSON.stringify({ jsonrpc: '2.0', id, ...fields });
    const streamed = script.streams === true;
    response.writeHead(200, { 'content-type': streamed ? 'text/event-stream' : 'application/json', ...headers });
    response.end(streamed ? `event: message\ndata: ${body}\n\n` : body);
  };

  const about = (response: ServerResponse, message: Message, session: string, word: Word): void => {
    const task = tasks.find(({ id }) => id === message.params?.['taskId']);
    // A task belongs to its session, as in the SDK's own store.
    const said = task === undefined || !known.has(task.id) || task.session !== session ? undefined : word(task);
    if (said === undefined || task === undefined)
      return answer(response, message.id, {
        error: { code: -32_602, message: `Task not found: ${String(message.params?.['taskId'])}` },
      });
    answer(response, message.id, {
      result: { taskId: task.id, createdAt: new Date().toISOString(), ttl: 600_000, ...said },
    });
  };

  const serve = (request: IncomingMessage, response: ServerResponse, message: Message): void => {
    const header = request.headers['mcp-session-id'];
    const session = typeof header === 'string' ? header : undefined;
    const method = message.method ?? request.method ?? '';
    asked.push({ method, session });
    if (script.intercept?.(method, response, request, message.id) === true) return;
    if (method === 'initialize') {
      const id = randomUUID();
      sessions.add(id);
      if (isObject(message.params?.['capabilities']) && 'elicitation' in message.params['capabilities'])
        askable.add(id);
      const result = {
        protocolVersion: '2025-11-25',
        capabilities: script.capabilities ?? TAKES_TASKS,
        serverInfo: { name: 'tasks', version: '1' },
      };
      return answer(response, message.id, { result }, { 'mcp-session-id': id });
    }
    if (method === 'server/discover')
      return answer(response, message.id, { error: { code: -32_601, message: 'Method not found' } });
    if (request.method === 'GET') return void response.writeHead(405).end();
    if (session === undefined || !sessions.has(session)) return void response.writeHead(404).end('Session not found');
    if (request.method === 'DELETE') {
      sessions.delete(session);
      return void response.writeHead(200).end();
    }
    // A request id must not occur twice in a session ("Requests").
    const used = `${session} ${JSON.stringify(message.id)}`;
    if (message.id !== undefined && ids.has(used))
      return answer(response, message.id, { error: { code: -32_600, message: 'the id was used before' } });
    ids.add(used);
    const isThere = script.asks === undefined || askable.has(session);
    switch (method) {
      case 'tools/list': {
        if (!isThere) return answer(response, message.id, { result: { tools: [] } });
        const tools = [{ name: 'dig', inputSchema: SCHEMA, execution: { taskSupport: script.support ?? 'required' } }];
        return answer(response, message.id, { result: { tools } });
      }
      case 'tools/call': {
        const { params = {} } = message;
        if (!isThere) return answer(response, message.id, { error: { code: -32_602, message: 'Tool dig not found' } });
        calls.push(params);
        if (params['task'] === undefined)
          return answer(response, message.id, { result: { content: [{ type: 'text', text: 'dug at once' }] } });
        const argument = params['arguments'];
        // Sound: callers of tests send objects.
        const task = {
          id: `task-${randomUUID()}`,
          session,
          argument: (argument ?? {}) as Fields,
          polls: 0,
          cancelled: false,
        };
        tasks.push(task);
        known.add(task.id);
        const begun = {
          taskId: task.id,
          status: 'working',
          createdAt: new Date().toISOString(),
          ttl: 600_000,
          pollInterval: 10,
        };
        return answer(response, message.id, { result: { task: { ...begun, ...script.begins } } });
      }
      case 'tasks/get':
        return about(response, message, session, (task) => {
          task.polls += 1;
          return (script.get ?? (() => ({ status: 'completed' })))(task);
        });
      case 'tasks/cancel':
        return about(response, message, session, (task) => {
          task.cancelled = true;
          return (script.cancel ?? (() => ({ status: 'cancelled' })))(task);
        });
      case 'tasks/result': {
        const task = tasks.find(({ id }) => id === message.params?.['taskId']);
        if (task === undefined) return void response.writeHead(500).end();
        const dug = { result: { content: [{ type: 'text', text: 'dug' }] } };
        return answer(response, message.id, (script.result ?? (() => dug))(task));
      }
      default:
        return void response.writeHead(202).end();
    }
  };

  const server = await listenOnLoopback((request, response) => {
    waiting += 1;
    response.once('close', () => (waiting -= 1));
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      // Sound: a test's client sends JSON-RPC objects; a field that is missing is handled where it is read.
      serve(request, response, text === '' ? {} : (JSON.parse(text) as Message));
    });
  });
  return {
    url: `${server.origin}/mcp`,
    tasks,
    calls,
    asked,
    waiting: () => waiting,
    become: (next) => {
      script = next;
    },
    restart: () => {
      sessions.clear();
      known.clear();
    },
    close: server.close,
  };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Fields;
}

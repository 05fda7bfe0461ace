/**
 * Serves an MCP server on loopback that does what its script says, and counts what it executed: the truth against
 * which outcomes are measured.
 *
 * The server uses `node:http` alone, so that it can break every rule that an SDK keeps. Servers that work on tasks,
 * list anew, leak or record are presets of it.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { Holds } from './holds.ts';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';

export type Fields = Readonly<Record<string, unknown>>;
export type Era = 'modern' | 'legacy';

export interface SeenRequest {
  readonly httpMethod: string;
  readonly rpcMethod: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly params: Fields;
  /** Present if the message is the client's answer to a request of the server. */
  readonly answer?: { readonly id: unknown; readonly result?: unknown; readonly error?: unknown };
}

/** A call that the server acted on. */
export interface ExecutedCall {
  readonly tool: string;
  readonly arguments: JsonObject;
  readonly headers: IncomingHttpHeaders;
}

/** One request as the script sees it, mostly `tools/call` or `resources/read`. */
export interface CallExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly id: unknown;
  readonly params: Fields;
  readonly arguments: JsonObject;
  /** Performs the side effect. */
  execute(): void;
  result(fields: Fields): void;
  /** Answers with a result of one text. */
  text(text: string): void;
  error(code: number, message: string): void;
  status(code: number, headers?: Readonly<Record<string, string>>, body?: string): void;
  json(body: string): void;
  /** Opens an event stream and writes the text unchanged. */
  stream(text: string): void;
  /** Writes the JSON of an answer, for scripts that send it in their own way. */
  answerWith(fields: Fields): string;
  reset(): void;
}

/**
 * Reaction of a tool to a call.
 * @param attempt number of the attempt at the same call, from 1
 */
export type Behaviour = (exchange: CallExchange, attempt: number) => void;

export interface RawServerScript {
  readonly era: Era;
  /** Behaviour of each tool. Without `pages` these are the tools that are listed. */
  readonly tools?: Readonly<Record<string, Behaviour>>;
  /** Handles the calls of tools without a behaviour; default: executes and says so. */
  readonly onCall?: Behaviour;
  /** Handles `resources/read`; if present, the server declares that it has resources. */
  readonly onRead?: Behaviour;
  /** Handles requests of these methods in place of the server. */
  readonly methods?: Readonly<Record<string, (exchange: CallExchange) => void>>;
  /** Handles a request before anything else; returns true if it has answered. */
  readonly intercept?: (
    request: IncomingMessage,
    response: ServerResponse,
    rpcMethod: string | undefined,
    id: unknown,
  ) => boolean;
  /** Handles a listing; the answer is sent when the test calls `answer`. */
  readonly onList?: (answer: () => void) => void;
  /** Pages of `tools/list`. */
  readonly pages?: readonly (readonly unknown[])[];
  /** `true`: one session, which nothing checks. `checked`: random ones, and none other is served. */
  readonly sessions?: boolean | 'checked';
  /** Default: tools, and resources if they can be read. */
  readonly capabilities?: Fields;
  /** Answers with event streams of one event. */
  readonly streams?: true;
}

export interface RawServer {
  readonly url: string;
  readonly seen: readonly SeenRequest[];
  /** Executed calls, in order. */
  readonly calls: readonly ExecutedCall[];
  executions(): number;
  /** Number of requests that wait for the end of their answer. */
  waiting(): number;
  /** Resolves once a request fits, or at once if one has. */
  sees(fits: (request: SeenRequest) => boolean): Promise<SeenRequest>;
  /** Changes the script from now on. */
  become(script: RawServerScript): void;
  /** Returns what the client of this session can do; undefined if there is none. */
  clientOf(session: string): Fields | undefined;
  /** Forgets all sessions. */
  forget(): void;
  close(): Promise<void>;
}

/** A raw server without an address, for servers that share one. */
export interface RawHandler extends Omit<RawServer, 'url' | 'close'> {
  readonly listener: RequestListener;
}

export function createRawHandler(first: RawServerScript): RawHandler {
  let script = first;
  let waiting = 0;
  const memory: Memory = { executions: 0, calls: [], attempts: new Map(), sessions: new Map(), used: new Set() };
  const seen: SeenRequest[] = [];
  const watchers = new Set<{ fits: (request: SeenRequest) => boolean; found: (request: SeenRequest) => void }>();
  const note = (request: SeenRequest): void => {
    seen.push(request);
    for (const watcher of watchers) {
      if (!watcher.fits(request)) continue;
      watchers.delete(watcher);
      watcher.found(request);
    }
  };
  return {
    listener: (request, response) => {
      waiting += 1;
      response.once('close', () => (waiting -= 1));
      void bodyOf(request).then((text) => {
        // Sound: a test's client sends JSON-RPC objects; a field that is missing is handled where it is read.
        const message = (text === '' ? {} : JSON.parse(text)) as Message;
        const { id, method, params = {}, result, error } = message;
        note({
          httpMethod: request.method ?? '',
          rpcMethod: method,
          headers: request.headers,
          params,
          ...defined({ answer: method === undefined && id !== undefined ? { id, result, error } : undefined }),
        });
        if (script.intercept?.(request, response, method, id) === true) return;
        serve(script, { request, response, message, memory, streams: script.streams === true });
      });
    },
    seen,
    calls: memory.calls,
    executions: () => memory.executions,
    waiting: () => waiting,
    sees: (fits) =>
      new Promise((resolve) => {
        const already = seen.find(fits);
        if (already === undefined) watchers.add({ fits, found: resolve });
        else resolve(already);
      }),
    become: (next) => {
      script = next;
    },
    clientOf: (session) => memory.sessions.get(session),
    forget: () => memory.sessions.clear(),
  };
}

export async function startRawServer(first: RawServerScript): Promise<RawServer> {
  const { listener, ...handler } = createRawHandler(first);
  const { origin, close } = await listenOnLoopback(listener);
  return { ...handler, url: `${origin}/mcp`, close };
}

export interface ListingServer extends Pick<RawServer, 'url' | 'close'> {
  /**
   * Lists these tools from now on, each with a description of this mark.
   * @param isHeld true if only `release` answers listings
   */
  lists(names: readonly string[], mark: string, isHeld?: boolean): void;
  /** Waits until a listing is held. */
  held(): Promise<void>;
  /** Answers what is held, even if nobody waits any more, and holds nothing from now on. */
  release(): void;
}

/** Starts a server whose listing a test changes, and can hold back. */
export async function startListingServer(): Promise<ListingServer> {
  const rounds: Holds[] = [];
  const server = await startRawServer({ era: 'modern' });
  return {
    url: server.url,
    close: server.close,
    lists: (names, mark, isHeld = false) => {
      const round = new Holds();
      rounds.push(round);
      const pages = [names.map((name) => ({ name, description: `${name} ${mark}`, inputSchema: OBJECT }))];
      const onList = isHeld ? (answer: () => void) => round.hold(answer) : undefined;
      server.become({ era: 'modern', pages, ...defined({ onList }) });
    },
    held: async () => await rounds.at(-1)?.held(),
    release: () => rounds.forEach((round) => round.release('')),
  };
}

/** Makes a behaviour that acts, and then answers or does what else it is given. */
export function acts(answers: Behaviour = () => {}): (exchange: CallExchange, attempt?: number) => void {
  return (exchange, attempt = 1) => {
    exchange.execute();
    answers(exchange, attempt);
  };
}

/** Makes a behaviour that acts and answers with this text. */
export function succeedWith(text: string): Behaviour {
  return acts((exchange) => exchange.text(text));
}

const OBJECT = { type: 'object' } as const;

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Fields;
  readonly result?: unknown;
  readonly error?: unknown;
}

interface Memory {
  executions: number;
  readonly calls: ExecutedCall[];
  /** Tool and idempotency key → number of attempts. */
  readonly attempts: Map<string, number>;
  /** Session → capabilities of its client. */
  readonly sessions: Map<string, Fields>;
  /** Session and id of every request. */
  readonly used: Set<string>;
}

interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: Message;
  readonly memory: Memory;
  readonly streams: boolean;
}

function serve(script: RawServerScript, incoming: Incoming): void {
  const { request, response, message, memory } = incoming;
  const isModern = script.era === 'modern';
  const json = (fields: object, headers?: Readonly<Record<string, string>>): void =>
    send(incoming, JSON.stringify({ jsonrpc: '2.0', id: message.id, ...fields }), headers);
  const fails = (code: number, text: string, data?: object): void =>
    json({ error: { code, message: text, ...defined({ data }) } });
  const { capabilities = { tools: {}, ...(script.onRead === undefined ? {} : { resources: {} }) } } = script;
  const complete = isModern ? { resultType: 'complete' } : {};
  const uncached = { ttlMs: 0, cacheScope: 'private' };
  if (request.method === 'GET') return void response.writeHead(405).end();
  if (script.sessions === 'checked' && message.method !== 'initialize' && message.method !== 'server/discover') {
    if (!isKnown(incoming)) return void response.writeHead(404).end('Session not found');
    if (wasUsed(incoming)) return fails(-32_600, 'the id was used before');
  }
  if (request.method === 'DELETE') return void response.writeHead(200).end();
  // The v1 SDK's transport gives this answer to a request of the other era (@modelcontextprotocol/sdk 1.32).
  if (!isModern && request.headers['mcp-protocol-version'] === '2026-07-28' && message.method !== 'server/discover') {
    const text = 'Bad Request: Unsupported protocol version: 2026-07-28 (supported versions: 2025-11-25)';
    response.writeHead(400, { 'content-type': 'application/json' });
    return void response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32_000, message: text } }));
  }
  const exchange = (): CallExchange => exchangeOf(incoming, complete);
  const handle = script.methods?.[message.method ?? ''];
  if (handle !== undefined) return handle(exchange());
  switch (message.method) {
    case 'server/discover':
      if (!isModern) return fails(-32_601, 'Method not found');
      return json({ result: { ...complete, supportedVersions: ['2026-07-28'], capabilities, ...uncached } });
    case 'initialize': {
      if (isModern) return fails(-32_022, 'Unsupported protocol version', { supported: ['2026-07-28'] });
      const session = script.sessions === 'checked' ? randomUUID() : 'session-1';
      // Sound: clients send their capabilities as an object.
      memory.sessions.set(session, (message.params?.['capabilities'] ?? {}) as Fields);
      const serverInfo = { name: 'raw', version: '1' };
      return json(
        { result: { protocolVersion: '2025-11-25', capabilities, serverInfo } },
        script.sessions === undefined || script.sessions === false ? {} : { 'mcp-session-id': session },
      );
    }
    case 'tools/list': {
      const pages = script.pages ?? [Object.keys(script.tools ?? {}).map((name) => definitionOf(name))];
      const at = Number(message.params?.['cursor'] ?? 0);
      const nextCursor = at + 1 < pages.length ? String(at + 1) : undefined;
      const answer = (): void =>
        json({ result: { ...complete, tools: pages[at] ?? [], ...uncached, ...defined({ nextCursor }) } });
      return script.onList === undefined ? answer() : script.onList(answer);
    }
    case 'tools/call': {
      const name = String(message.params?.['name']);
      const key = `${name} ${String(request.headers['idempotency-key'])}`;
      const attempt = (memory.attempts.get(key) ?? 0) + 1;
      memory.attempts.set(key, attempt);
      return (script.tools?.[name] ?? script.onCall ?? succeedWith('done'))(exchange(), attempt);
    }
    case 'resources/read':
      if (script.onRead === undefined) return fails(-32_601, 'Method not found');
      return script.onRead(exchange(), 1);
    default:
      return void response.writeHead(202).end();
  }
}

function send({ response, streams }: Incoming, body: string, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json', ...headers });
  response.end(streams ? `event: message\ndata: ${body}\n\n` : body);
}

function definitionOf(name: string): object {
  return { name, description: `Does ${name}.`, inputSchema: OBJECT };
}

/** Says whether the request is of a session that the server knows; a farewell ends it. */
function isKnown({ request, memory }: Incoming): boolean {
  const session = String(request.headers['mcp-session-id']);
  return request.method === 'DELETE' ? memory.sessions.delete(session) : memory.sessions.has(session);
}

/** A request id must not occur twice in a session ("Requests"). */
function wasUsed({ request, message, memory }: Incoming): boolean {
  const id = `${String(request.headers['mcp-session-id'])} ${JSON.stringify(message.id)}`;
  const was = message.id !== undefined && memory.used.has(id);
  memory.used.add(id);
  return was;
}

function exchangeOf(incoming: Incoming, complete: object): CallExchange {
  const { request, response, message, memory } = incoming;
  const { id, params = {} } = message;
  // Sound: arguments come from JSON.
  const args = (params['arguments'] ?? {}) as JsonObject;
  const answerWith = (fields: object): string =>
    JSON.stringify({ jsonrpc: '2.0', id, result: { ...complete, ...fields } });
  const json = (body: string): void => send(incoming, body);
  return {
    request,
    response,
    id,
    params,
    arguments: args,
    execute: () => {
      memory.executions += 1;
      memory.calls.push({ tool: String(params['name']), arguments: args, headers: request.headers });
    },
    answerWith,
    json,
    result: (fields) => json(answerWith(fields)),
    text: (text) => json(answerWith({ content: [{ type: 'text', text }] })),
    error: (code, text) => json(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: text } })),
    status: (code, headers = {}, body = '') => {
      response.writeHead(code, headers);
      response.end(body);
    },
    stream: (text) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(text);
    },
    reset: () => {
      request.socket.resetAndDestroy();
    },
  };
}

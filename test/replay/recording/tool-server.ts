/**
 * Serves the MCP server (revision 2026-07-28) of recorded runs, whose tools do what they are named after.
 *
 * The address stands in every recorded history, so it names no machine and never changes.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

const PORT = 17_419;
/** Paths of the two servers of MCP 2025-11-25. */
const KEPT_PATH = '/kept';
const TASK_PATH = '/tasks';
/** Origin of the server, and issuer of tokens. */
export const TOOL_SERVER_ORIGIN = `http://127.0.0.1:${PORT}`;
export const TOOL_SERVER_URL = `${TOOL_SERVER_ORIGIN}/mcp`;
export const KEPT_SERVER_URL = `${TOOL_SERVER_ORIGIN}${KEPT_PATH}`;
export const TASK_SERVER_URL = `${TOOL_SERVER_ORIGIN}${TASK_PATH}`;

/** The token that `borrow_note` wants, if it is listed. */
export const FRESH_TOKEN = 'fresh';

/** The scope that `open_note` wants, if it is listed. */
export const OPEN_SCOPE = 'notes:open';

/** URI of a note, as `link_note` gives it. */
export function noteUri(note: string): string {
  return `note://${note}`;
}

/** A PNG image of one pixel. */
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const TOOLS: Readonly<Record<string, string>> = {
  read_note: 'Reads one note.',
  write_note: 'Writes one note.',
  seal_note: 'Seals one note, for ever.',
  send_note: 'Sends one note to its reader.',
  post_note: 'Puts one note on the board.',
  file_note: 'Files one note.',
  stamp_note: 'Puts a stamp on one note.',
  delete_note: 'Deletes one note.',
  draw_chart: 'Draws the notes of a week.',
  hold_note: 'Answers when it is told to.',
  lose_answer: 'Writes, and loses the answer.',
  refuse_once: 'Is too busy the first time.',
  ask_first: 'Asks people before it writes.',
  link_note: 'Says where one note is.',
};

export interface ToolServer {
  /** Resolves when this many calls of `hold_note` wait for their answer. */
  held(count: number): Promise<void>;
  /** Answers all waiting calls. */
  release(): void;
  /** Changes the descriptions of tools from now on; a name without a text is not listed. */
  retell(changes: Readonly<Record<string, string | undefined>>): void;
  /** Makes listings fail, or work again. */
  refuseListing(refuses: boolean): void;
  /** Finishes all tasks in progress. */
  finish(): void;
  stop(): Promise<void>;
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly uri?: string;
    readonly arguments?: { readonly name?: string };
    readonly inputResponses?: object;
    readonly requestState?: string;
  };
}

export async function startToolServer(): Promise<ToolServer> {
  const waiting: (() => void)[] = [];
  const watchers: (() => void)[] = [];
  const refused = new Set<string>();
  let told: Readonly<Record<string, string | undefined>> = TOOLS;
  let isMute = false;
  const keep = createKeptAnswers();
  const works = createTaskWorks();
  const server = createServer((request, response) => {
    void read(request).then((body) => {
      if (serveTokens(TOOL_SERVER_ORIGIN, request, body, response)) return;
      // Sound: all other clients are our adapter, which sends JSON-RPC objects.
      const message = body === '' ? {} : (JSON.parse(body) as Message);
      if (request.url === KEPT_PATH) return keep(request, message, response);
      if (request.url === TASK_PATH) return works.serve(message, response);
      const json = (fields: object): void =>
        void response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...fields }));
      const result = (fields: object): void => json({ result: { resultType: 'complete', ...fields } });
      switch (message.method) {
        case 'server/discover':
          return result({
            supportedVersions: ['2026-07-28'],
            capabilities: { tools: {}, resources: {} },
            ttlMs: 0,
            cacheScope: 'private',
          });
        case 'tools/list':
          if (isMute) return void response.writeHead(403).end();
          return result({
            tools: Object.entries(told).flatMap(([name, description]) =>
              description === undefined ? [] : [{ name, description, inputSchema: SCHEMA }],
            ),
            ttlMs: 0,
            cacheScope: 'private',
          });
        case 'resources/read': {
          const { uri } = message.params ?? {};
          return result({ contents: [{ uri, text: 'what the note says' }], ttlMs: 0, cacheScope: 'private' });
        }
        case 'tools/call':
          return call(message, response, result, request.headers.authorization);
        default:
          return void response.writeHead(202).end();
      }
    });
  });
  const call = (
    { params }: Message,
    response: ServerResponse,
    result: (fields: object) => void,
    authorization: string | undefined,
  ): void => {
    const note = params?.arguments?.name ?? '';
    const say = (text: string): void => result({ content: [{ type: 'text', text }] });
    switch (params?.name) {
      case 'read_note':
        return say(`${note}: ${'all is well. '.repeat(note === 'long' ? 60 : 1)}`);
      case 'draw_chart':
        return result({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] });
      case 'hold_note':
        waiting.push(() => say(`${note} was held`));
        return watchers.forEach((watch) => watch());
      case 'lose_answer':
        return void response.destroy();
      case 'ask_first':
        return asks(note, params.requestState, result) ? undefined : say(`${note} is written`);
      case 'borrow_note':
        if (authorization !== `Bearer ${FRESH_TOKEN}`) return void response.writeHead(401).end();
        return say(`${note} is borrowed`);
      case 'open_note': {
        if (hasScope(authorization, OPEN_SCOPE)) return say(`${note} is open`);
        const challenge = `Bearer error="insufficient_scope", scope="${OPEN_SCOPE}"`;
        return void response.writeHead(403, { 'www-authenticate': challenge }).end();
      }
      case 'link_note':
        return result({ content: [{ type: 'resource_link', uri: noteUri(note), name: note }] });
      case 'refuse_once':
        if (refused.has(note)) return say(`${note} is done`);
        refused.add(note);
        return void response.writeHead(429).end();
      default:
        return say(`${params?.name} of ${note} is done`);
    }
  };
  server.listen(PORT, '127.0.0.1');
  await once(server, 'listening');
  return {
    held: (count) =>
      new Promise((resolve) => {
        const watch = (): void => {
          if (waiting.length >= count) resolve();
        };
        watchers.push(watch);
        watch();
      }),
    release: () => waiting.splice(0).forEach((answer) => answer()),
    retell: (changes) => void (told = { ...TOOLS, ...changes }),
    refuseListing: (refuses) => void (isMute = refuses),
    finish: () => works.finish(),
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Asks one question; for a note called `twice`, a second one. Each question has a state of its own. */
function asks(note: string, state: string | undefined, result: (fields: object) => void): boolean {
  const [key, message] = state === undefined ? ['who', 'Who is it for?'] : ['why', 'And why?'];
  if (state !== undefined && (note !== 'twice' || state !== 'after who')) return false;
  const requestedSchema = {
    type: 'object',
    properties: { text: { type: 'string', minLength: 2 } },
    required: ['text'],
  };
  const inputRequests = { [key]: { method: 'elicitation/create', params: { message, requestedSchema } } };
  result({ resultType: 'input_required', inputRequests, requestState: `after ${key}` });
  return true;
}

const SCHEMA = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  // Sound: without an encoding, a request gives buffers.
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

// Serves an MCP server of 2025-11-25 that keeps its events: a client that comes back for a call gets the
// answer. It shares the address of the tool server.
//
// Its ids come from the scenarios, and open nothing.

const SESSION = 'a-session-of-the-corpus';

export interface KeptMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: { readonly name?: string } };
}

/** Returns a handler that answers each request. */
function createKeptAnswers(): (request: IncomingMessage, message: KeptMessage, response: ServerResponse) => void {
  /** Event id → the answer that came after that event. */
  const answers = new Map<string, string>();
  const stream = (response: ServerResponse, text: string): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text);
  };
  return (request, { id, method, params }, response) => {
    const json = (result: object): void =>
      void response
        .writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': SESSION })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    const last = String(request.headers['last-event-id']);
    if (request.method === 'GET') {
      const answer = answers.get(last);
      if (answer === undefined) return void response.writeHead(404).end();
      stream(response, answer);
      return void response.end();
    }
    switch (method) {
      case 'initialize':
        return json({
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'kept', version: '1' },
        });
      case 'tools/list':
        return json({ tools: [{ name: 'keep_note', description: 'Keeps one note.', inputSchema: SCHEMA }] });
      case 'tools/call': {
        const text = `${params?.arguments?.name ?? ''} is kept`;
        const answer = { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } };
        answers.set('event-1', `id: event-2\ndata: ${JSON.stringify(answer)}\n\n`);
        return stream(response, 'id: event-1\ndata: \n\n');
      }
      default:
        return void response.writeHead(202).end();
    }
  };
}

// Serves the second half of the tool server of recorded runs: MCP 2025-11-25, with one tool that can only be
// called as a task.
// Its address never changes. Ids of sessions and tasks are random, as with real servers.

export interface TaskWorks {
  serve(message: TaskMessage, response: ServerResponse): void;
  /** Finishes all tasks in progress. */
  finish(): void;
}

export interface TaskMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: object;
}

const TOOL = {
  name: 'dig_note',
  description: 'Digs for one note, for as long as it takes.',
  inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  execution: { taskSupport: 'required' },
};

function createTaskWorks(): TaskWorks {
  const cancelled = new Set<string>();
  const begun = new Set<string>();
  const finished = new Set<string>();
  const stateOf = (taskId: string): object => {
    const status = cancelled.has(taskId) ? 'cancelled' : finished.has(taskId) ? 'completed' : 'working';
    const times = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z' };
    return { taskId, status, statusMessage: `still ${status}`, ttl: 3_600_000, pollInterval: 1_000, ...times };
  };
  return {
    finish: () => begun.forEach((taskId) => finished.add(taskId)),
    serve: ({ id, method, params }, response) => {
      const taskId = params !== undefined && 'taskId' in params ? String(params.taskId) : '';
      const answer = (fields: object): void =>
        void response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ jsonrpc: '2.0', id, ...fields }));
      const result = (fields: object): void => answer({ result: fields });
      switch (method) {
        case 'server/discover':
          return answer({ error: { code: -32_601, message: 'Method not found' } });
        case 'initialize':
          response.setHeader('mcp-session-id', randomUUID());
          return result({
            protocolVersion: '2025-11-25',
            capabilities: { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } },
            serverInfo: { name: 'works', version: '1' },
          });
        case 'tools/list':
          return result({ tools: [TOOL] });
        case 'tools/call': {
          const begunNow = randomUUID();
          begun.add(begunNow);
          return result({ task: stateOf(begunNow) });
        }
        case 'tasks/cancel':
          cancelled.add(taskId);
          return result(stateOf(taskId));
        case 'tasks/get':
          return result(stateOf(taskId));
        case 'tasks/result':
          return result({ content: [{ type: 'text', text: `found by ${taskId}` }] });
        default:
          return void response.writeHead(202).end();
      }
    },
  };
}

// Serves the authorization server of recorded runs (RFC 8414, RFC 6749 §4.4). It grants every request, and
// its address never changes.

const METADATA_PATH = '/.well-known/oauth-authorization-server';
const TOKEN_PATH = '/token';

/** A token contains its scope and nothing else; no run keeps it. */
function hasScope(authorization: string | undefined, scope: string): boolean {
  const token = authorization?.replace('Bearer ', '') ?? '';
  return Buffer.from(token, 'base64url').toString('utf8').split(' ').includes(scope);
}

/**
 * @param body as it was sent
 * @returns true if the request was for this server
 */
function serveTokens(origin: string, { url }: IncomingMessage, body: string, response: ServerResponse): boolean {
  const json = (fields: object): true => {
    response.setHeader('content-type', 'application/json').setHeader('cache-control', 'no-store');
    response.end(JSON.stringify(fields));
    return true;
  };
  if (url === METADATA_PATH)
    return json({
      issuer: origin,
      token_endpoint: `${origin}${TOKEN_PATH}`,
      response_types_supported: ['code'],
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
    });
  if (url !== TOKEN_PATH) return false;
  const scope = new URLSearchParams(body).get('scope') ?? '';
  return json({
    access_token: Buffer.from(scope).toString('base64url'),
    token_type: 'Bearer',
    expires_in: 60,
    scope,
  });
}

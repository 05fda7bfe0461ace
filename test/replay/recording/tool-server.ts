/**
 * Serves the MCP servers of recorded runs, whose tools do what they are named after: one of revision 2026-07-28, two of
 * 2025-11-25. It is also the issuer of their tokens.
 *
 * The address stands in every recorded history, so it names no machine and never changes.
 */
import { randomUUID } from 'node:crypto';
import type { RequestListener, ServerResponse } from 'node:http';
import { isFields } from '../../../domain/shapes/inputs.ts';
import { bodyOf, listenOnLoopback } from '../../support/servers/loopback-server.ts';
import {
  type CallExchange,
  createRawHandler,
  type Fields,
  type RawServerScript,
  type SeenRequest,
} from '../../support/servers/raw-server.ts';
import { until } from '../../support/until.ts';

/** A test that plays scenes records nothing, and may run beside a recorder. */
const PORT = process.env['JEST_WORKER_ID'] === undefined ? 17_419 : 20_000 + (process.pid % 10_000);
/** Paths of the two servers of MCP 2025-11-25. */
const KEPT_PATH = '/kept';
const TASK_PATH = '/tasks';
const METADATA_PATH = '/.well-known/oauth-authorization-server';
const TOKEN_PATH = '/token';
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

type Told = Readonly<Record<string, string | undefined>>;

export interface ToolServer {
  /** Resolves when this many calls of `hold_note` wait for their answer. */
  held(count: number): Promise<void>;
  /** True if a call of `hold_note` waits for its answer. */
  isHolding(): boolean;
  /** Answers all waiting calls. */
  release(): void;
  /** Changes the descriptions of tools from now on; a name without a text is not listed. */
  retell(changes: Told): void;
  /** Makes listings fail, or work again. */
  refuseListing(refuses: boolean): void;
  /** Finishes all tasks in progress. */
  finish(): void;
  /** Returns each call that came in, in order: its tool, and its key, which begins with workflow id and call id. */
  calls(): readonly SeenCall[];
  stop(): Promise<void>;
}

export interface SeenCall {
  readonly tool: string;
  readonly key: string;
}

const SCHEMA = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

export async function startToolServer(): Promise<ToolServer> {
  const waiting: (() => void)[] = [];
  let told: Told = TOOLS;
  let isRefused = false;
  const script = (): RawServerScript => notesScript(isRefused ? undefined : told, waiting);
  const notes = createRawHandler(script());
  const works = taskWorks();
  const [kept, tasks] = [createRawHandler(keptScript()), createRawHandler(works.script)];
  const handlers: Readonly<Record<string, RequestListener>> = {
    [METADATA_PATH]: tellOfTokens,
    [TOKEN_PATH]: (request, response) => void bodyOf(request).then((body) => giveToken(body, response)),
    [KEPT_PATH]: kept.listener,
    [TASK_PATH]: tasks.listener,
  };
  const server = await listenOnLoopback(
    (request, response) => (handlers[request.url ?? ''] ?? notes.listener)(request, response),
    { port: PORT },
  );
  return {
    held: async (count) =>
      await until(() => waiting.length >= count || undefined, { what: `${count} calls that wait` }).then(() => {}),
    isHolding: () => waiting.length > 0,
    release: () => waiting.splice(0).forEach((answer) => answer()),
    retell: (changes) => {
      told = { ...TOOLS, ...changes };
      notes.become(script());
    },
    refuseListing: (refuses) => {
      isRefused = refuses;
      notes.become(script());
    },
    finish: works.finish,
    calls: () => [notes, kept, tasks].flatMap(({ seen }) => seen.flatMap(callIn)),
    stop: server.close,
  };
}

function callIn({ rpcMethod, params, headers }: SeenRequest): SeenCall[] {
  if (rpcMethod !== 'tools/call') return [];
  const { _meta: meta } = params;
  const told = isFields(meta) ? meta['countersign/idempotency-key'] : undefined;
  const [key] = [told, headers['idempotency-key']].filter((each) => typeof each === 'string');
  return [{ tool: String(params['name']), key: key ?? '' }];
}

const noteOf = ({ arguments: { name } }: CallExchange): string => (typeof name === 'string' ? name : '');
const tokenOf = ({ request }: CallExchange): string => request.headers.authorization?.replace('Bearer ', '') ?? '';

/**
 * @param told descriptions of the tools that are listed; none are if it is undefined
 * @param waiting gets what answers the calls of `hold_note`
 */
function notesScript(told: Told | undefined, waiting: (() => void)[]): RawServerScript {
  return {
    era: 'modern',
    methods: told === undefined ? { 'tools/list': (exchange) => exchange.status(403) } : {},
    pages: [
      Object.entries(told ?? {}).flatMap(([name, description]) =>
        description === undefined ? [] : [{ name, description, inputSchema: SCHEMA }],
      ),
    ],
    onRead: ({ params, result }) =>
      result({ contents: [{ uri: params['uri'], text: 'what the note says' }], ttlMs: 0, cacheScope: 'private' }),
    onCall: (exchange) => exchange.text(`${String(exchange.params['name'])} of ${noteOf(exchange)} is done`),
    tools: {
      read_note: (exchange) => {
        const note = noteOf(exchange);
        exchange.text(`${note}: ${'all is well. '.repeat(note === 'long' ? 60 : 1)}`);
      },
      draw_chart: ({ result }) => result({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }] }),
      hold_note: (exchange) => void waiting.push(() => exchange.text(`${noteOf(exchange)} was held`)),
      lose_answer: ({ response }) => void response.destroy(),
      ask_first: (exchange) => (asks(exchange) ? undefined : exchange.text(`${noteOf(exchange)} is written`)),
      borrow_note: (exchange) =>
        tokenOf(exchange) === FRESH_TOKEN ? exchange.text(`${noteOf(exchange)} is borrowed`) : exchange.status(401),
      open_note: (exchange) => {
        // A token contains its scope and nothing else; no run keeps it.
        const scopes = Buffer.from(tokenOf(exchange), 'base64url').toString('utf8').split(' ');
        if (scopes.includes(OPEN_SCOPE)) return exchange.text(`${noteOf(exchange)} is open`);
        exchange.status(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${OPEN_SCOPE}"` });
      },
      link_note: (exchange) => {
        const note = noteOf(exchange);
        exchange.result({ content: [{ type: 'resource_link', uri: noteUri(note), name: note }] });
      },
      refuse_once: (exchange, attempt) =>
        attempt === 1 ? exchange.status(429, pauseFor(noteOf(exchange))) : exchange.text(`${noteOf(exchange)} is done`),
    },
  };
}

/** Longer and shorter than the longest wait of the run's own (`domain/request/throttling.ts`). */
const PAUSES: Readonly<Record<string, string>> = { tomorrow: '86400', soon: '50' };

function pauseFor(note: string): Record<string, string> {
  const wanted = PAUSES[note];
  return wanted === undefined ? {} : { 'retry-after': wanted };
}

/** Asks one question; for a note called `twice`, a second one. Each question has a state of its own. */
function asks(exchange: CallExchange): boolean {
  const state = exchange.params['requestState'];
  const [key, message] = state === undefined ? ['who', 'Who is it for?'] : ['why', 'And why?'];
  if (state !== undefined && (noteOf(exchange) !== 'twice' || state !== 'after who')) return false;
  const requestedSchema = {
    type: 'object',
    properties: { text: { type: 'string', minLength: 2 } },
    required: ['text'],
  };
  const inputRequests = { [key]: { method: 'elicitation/create', params: { message, requestedSchema } } };
  exchange.result({ resultType: 'input_required', inputRequests, requestState: `after ${key}` });
  return true;
}

/** A server that keeps its events: a client that comes back for a call gets the answer. Its ids open nothing. */
function keptScript(): RawServerScript {
  /** Event id → the answer that came after that event. */
  const answers = new Map<string, string>();
  return {
    era: 'legacy',
    sessions: true,
    intercept: (request, response) => {
      if (request.method !== 'GET') return false;
      const answer = answers.get(String(request.headers['last-event-id']));
      response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'text/event-stream' }).end(answer);
      return true;
    },
    pages: [[{ name: 'keep_note', description: 'Keeps one note.', inputSchema: SCHEMA }]],
    onCall: (exchange) => {
      const answer = exchange.answerWith({ content: [{ type: 'text', text: `${noteOf(exchange)} is kept` }] });
      answers.set('event-1', `id: event-2\ndata: ${answer}\n\n`);
      exchange.stream('id: event-1\ndata: \n\n');
    },
  };
}

/** A server with one tool that can only be called as a task. Ids of sessions and tasks are random, as with real servers. */
function taskWorks(): { readonly script: RawServerScript; finish(): void } {
  const states = new Map<string, 'working' | 'completed' | 'cancelled'>();
  const stateOf = (taskId: string): Fields => {
    const status = states.get(taskId) ?? 'working';
    const times = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z' };
    return { taskId, status, statusMessage: `still ${status}`, ttl: 3_600_000, pollInterval: 1_000, ...times };
  };
  const idIn = ({ params }: CallExchange): string => String(params['taskId']);
  const dig = { name: 'dig_note', description: 'Digs for one note, for as long as it takes.', inputSchema: SCHEMA };
  return {
    finish: () => {
      for (const [taskId, status] of states) if (status === 'working') states.set(taskId, 'completed');
    },
    script: {
      era: 'legacy',
      sessions: 'checked',
      capabilities: { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } },
      pages: [[{ ...dig, execution: { taskSupport: 'required' } }]],
      onCall: ({ result }) => {
        const taskId = randomUUID();
        states.set(taskId, 'working');
        result({ task: stateOf(taskId) });
      },
      methods: {
        'tasks/get': (exchange) => exchange.result(stateOf(idIn(exchange))),
        'tasks/cancel': (exchange) => {
          states.set(idIn(exchange), 'cancelled');
          exchange.result(stateOf(idIn(exchange)));
        },
        'tasks/result': (exchange) => exchange.text(`found by ${idIn(exchange)}`),
      },
    },
  };
}

// The authorization server (RFC 8414, RFC 6749 §4.4). It grants every request.

function json(response: ServerResponse, fields: object): void {
  response.setHeader('content-type', 'application/json').setHeader('cache-control', 'no-store');
  response.end(JSON.stringify(fields));
}

const tellOfTokens: RequestListener = (_request, response) =>
  json(response, {
    issuer: TOOL_SERVER_ORIGIN,
    token_endpoint: `${TOOL_SERVER_ORIGIN}${TOKEN_PATH}`,
    response_types_supported: ['code'],
    grant_types_supported: ['client_credentials'],
    token_endpoint_auth_methods_supported: ['client_secret_basic'],
  });

function giveToken(body: string, response: ServerResponse): void {
  const scope = new URLSearchParams(body).get('scope') ?? '';
  json(response, {
    access_token: Buffer.from(scope).toString('base64url'),
    token_type: 'Bearer',
    expires_in: 60,
    scope,
  });
}

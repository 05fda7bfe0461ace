/**
 * Serves the MCP server (revision 2026-07-28) of recorded runs, whose tools do what they are named after.
 *
 * The address stands in every recorded history, so it names no machine and never changes.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { createKeptAnswers, KEPT_PATH } from './kept-answers.ts';
import { createTaskWorks, TASK_PATH } from './task-works.ts';
import { hasScope, serveTokens } from './token-office.ts';

const PORT = 17_419;
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

/**
 * Serves an MCP server on loopback that misbehaves as told, and counts what it executed: the truth against
 * which outcomes are measured.
 *
 * The server uses `node:http` alone, so that it can break every rule that an SDK keeps.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { listenOnLoopback } from './loopback-server.ts';

export type Era = 'modern' | 'legacy';

export interface SeenRequest {
  readonly httpMethod: string;
  readonly rpcMethod: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly params: Readonly<Record<string, unknown>>;
  /** Present if the message is the client's answer to a request of the server. */
  readonly answer?: { readonly id: unknown; readonly result?: unknown; readonly error?: unknown };
}

/** One `tools/call` or `resources/read` as the script sees it. */
export interface CallExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly id: unknown;
  readonly params: Readonly<Record<string, unknown>>;
  /** Performs the side effect. */
  execute(): void;
  result(fields: Readonly<Record<string, unknown>>): void;
  error(code: number, message: string): void;
  status(code: number, headers?: Readonly<Record<string, string>>, body?: string): void;
  json(body: string): void;
  /** Opens an event stream and writes the text unchanged. */
  stream(text: string): void;
  /** Writes the JSON of an answer, for scripts that send it in their own way. */
  answerWith(fields: Readonly<Record<string, unknown>>): string;
  reset(): void;
}

export interface RawServerScript {
  readonly era: Era;
  readonly onCall?: (exchange: CallExchange) => void;
  /** Handles `resources/read`; if present, the server declares that it has resources. */
  readonly onRead?: (exchange: CallExchange) => void;
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
  readonly sessions?: boolean;
}

export interface RawServer {
  readonly url: string;
  readonly seen: readonly SeenRequest[];
  executions(): number;
  /** Resolves once a request fits, or at once if one has. */
  sees(fits: (request: SeenRequest) => boolean): Promise<SeenRequest>;
  /** Changes the script from now on. */
  become(script: RawServerScript): void;
  close(): Promise<void>;
}

export async function startRawServer(first: RawServerScript): Promise<RawServer> {
  let script = first;
  let executions = 0;
  const seen: SeenRequest[] = [];
  const waiting = new Set<{ fits: (request: SeenRequest) => boolean; found: (request: SeenRequest) => void }>();
  const note = (request: SeenRequest): void => {
    seen.push(request);
    for (const waiter of waiting) {
      if (!waiter.fits(request)) continue;
      waiting.delete(waiter);
      waiter.found(request);
    }
  };
  const server = await listenOnLoopback((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    request.on('end', () => {
      const message = parsed(Buffer.concat(chunks).toString('utf8'));
      note({
        httpMethod: request.method ?? '',
        rpcMethod: message.method,
        headers: request.headers,
        params: message.params ?? {},
        ...(message.method === undefined && message.id !== undefined
          ? { answer: { id: message.id, result: message.result, error: message.error } }
          : {}),
      });
      if (script.intercept?.(request, response, message.method, message.id) === true) return;
      serve(script, { request, response, message, execute: () => (executions += 1) });
    });
  });
  return {
    url: `${server.origin}/mcp`,
    seen,
    executions: () => executions,
    sees: (fits) =>
      new Promise((resolve) => {
        const already = seen.find(fits);
        if (already === undefined) waiting.add({ fits, found: resolve });
        else resolve(already);
      }),
    become: (next) => {
      script = next;
    },
    close: server.close,
  };
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

function parsed(text: string): Message {
  if (text === '') return {};
  // Sound: a test's client sends JSON-RPC objects; a field that is missing is handled where it is read.
  return JSON.parse(text) as Message;
}

interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: Message;
  readonly execute: () => void;
}

function serve(script: RawServerScript, incoming: Incoming): void {
  const { request, response, message } = incoming;
  const modern = script.era === 'modern';
  const json = (fields: object, headers: Readonly<Record<string, string>> = {}): void => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...fields }));
  };
  const capabilities = { tools: {}, ...(script.onRead === undefined ? {} : { resources: {} }) };
  const complete = modern ? { resultType: 'complete' } : {};
  if (request.method === 'GET') return void response.writeHead(405).end();
  if (request.method === 'DELETE') return void response.writeHead(200).end();
  // The v1 SDK's transport gives this answer to a request of the other era (@modelcontextprotocol/sdk 1.32).
  if (!modern && request.headers['mcp-protocol-version'] === '2026-07-28' && message.method !== 'server/discover') {
    return refuse(
      response,
      400,
      -32_000,
      'Bad Request: Unsupported protocol version: 2026-07-28 (supported versions: 2025-11-25)',
    );
  }
  switch (message.method) {
    case 'server/discover':
      if (!modern) return json({ error: { code: -32_601, message: 'Method not found' } });
      return json({
        result: {
          ...complete,
          supportedVersions: ['2026-07-28'],
          capabilities,
          ttlMs: 0,
          cacheScope: 'private',
        },
      });
    case 'initialize':
      if (modern)
        return json({
          error: { code: -32_022, message: 'Unsupported protocol version', data: { supported: ['2026-07-28'] } },
        });
      return json(
        {
          result: {
            protocolVersion: '2025-11-25',
            capabilities,
            serverInfo: { name: 'raw', version: '1' },
          },
        },
        script.sessions === true ? { 'mcp-session-id': 'session-1' } : {},
      );
    case 'tools/list': {
      const pages = script.pages ?? [[]];
      const at = Number(message.params?.['cursor'] ?? 0);
      const more = at + 1 < pages.length ? { nextCursor: String(at + 1) } : {};
      const answer = (): void =>
        json({ result: { ...complete, tools: pages[at] ?? [], ttlMs: 0, cacheScope: 'private', ...more } });
      return script.onList === undefined ? answer() : script.onList(answer);
    }
    case 'tools/call':
      return (script.onCall ?? succeed)(exchangeOf(incoming, complete));
    case 'resources/read':
      if (script.onRead === undefined) return json({ error: { code: -32_601, message: 'Method not found' } });
      return script.onRead(exchangeOf(incoming, complete));
    default:
      return void response.writeHead(202).end();
  }
}

function succeed(exchange: CallExchange): void {
  exchange.execute();
  exchange.result({ content: [{ type: 'text', text: 'done' }] });
}

function exchangeOf({ request, response, message, execute }: Incoming, complete: object): CallExchange {
  const answerWith = (fields: object): string =>
    JSON.stringify({ jsonrpc: '2.0', id: message.id, result: { ...complete, ...fields } });
  const json = (body: string): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(body);
  };
  return {
    request,
    response,
    id: message.id,
    params: message.params ?? {},
    execute,
    answerWith,
    json,
    result: (fields) => json(answerWith(fields)),
    error: (code, text) => json(JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code, message: text } })),
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

function refuse(response: ServerResponse, status: number, code: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }));
}

/**
 * The ways in which a server may fail a call, over HTTP and in MCP, and what must be said of each.
 * One file, because the rows are one table.
 */
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import { aCall, aConnection, aDefinition, type ToolServerHarness } from '../support/activities/tool-call.ts';
import {
  acts,
  type CallExchange,
  type Era,
  type Fields,
  type RawServer,
  startRawServer,
} from '../support/servers/raw-server.ts';

export interface FailureRow {
  /** Cited by `matrix-rows.ts`. */
  readonly id: `M-${string}`;
  readonly title: string;
  readonly does: (exchange: CallExchange) => void;
  /** What the ending must match. */
  readonly ends: Readonly<Record<string, unknown>>;
  readonly executions: 0 | 1;
  /** Both where absent. */
  readonly eras?: readonly Era[];
  /** False: a broken stream is not to be had again. */
  readonly resumes?: false;
  readonly connection?: Partial<ServerConnection>;
  readonly call?: Partial<ToolCall>;
}

const UNKNOWN = { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } as const;
/** Noticed as soon as it happens, not at the deadline. */
const LOST = { ...UNKNOWN, message: expect.stringContaining('ended without an answer') };
const LATE = { ...UNKNOWN, message: expect.stringContaining('before the deadline') };
/** Nothing in a redirect says that the server has not acted. */
const REDIRECTED = { ...UNKNOWN, message: expect.stringContaining('redirect') };
const DONE = { kind: 'executed', isError: false } as const;
const FAILED = { kind: 'executed', isError: true } as const;
const TOO_LARGE = { ...UNKNOWN, message: expect.stringContaining('larger than') };
const MIB = 1_048_576;
const GIVEN = { connection: { accessToken: 'token-1234' } };
/** Long enough for a loopback exchange on a loaded machine, short enough to wait for. */
const SOON = { call: { timeoutMs: 1_000 } };
const SCHEMA = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
const PROMISED = { call: { definition: aDefinition({ outputSchema: SCHEMA }) } };

type Does = FailureRow['does'];
const status =
  (code: number, headers?: Record<string, string>, body?: string): Does =>
  (exchange) =>
    exchange.status(code, headers, body);
const error =
  (code: number, message: string): Does =>
  (exchange) =>
    exchange.error(code, message);
const result =
  (fields: Fields): Does =>
  (exchange) =>
    exchange.result(fields);
const json =
  (body: string): Does =>
  (exchange) =>
    exchange.json(body);
/** An event stream that begins so, and then ends, breaks, or stays open. */
const streams =
  (text: string, then: 'ends' | 'breaks' | 'stays'): Does =>
  ({ stream, response }) => {
    stream(text);
    if (then === 'ends') response.end();
    if (then === 'breaks') setImmediate(() => response.destroy());
  };
const text = (said: string): object => ({ type: 'text', text: said });

/** Said before the tool ran: what the server does, the code of the refusal, and what else stands with it. */
const REFUSED: readonly (readonly [
  FailureRow['id'],
  string,
  Does,
  string,
  (Partial<FailureRow> | undefined)?,
  object?,
])[] = [
  ['M-401', '401 with a token: refused, and the token is to blame', status(401), 'TOOL_UNAUTHORIZED', GIVEN],
  ['M-401-bare', '401 without a token: refused', status(401), 'TOOL_UNAUTHORIZED'],
  ['M-403', '403: refused', status(403, {}, 'not for you'), 'TOOL_FORBIDDEN'],
  [
    'M-403-scope',
    '403 insufficient_scope: refused with the scope that is missing, and no wider token is fetched (F14, INV-S2)',
    status(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="tool:deploy"' }),
    'TOOL_INSUFFICIENT_SCOPE',
    GIVEN,
    { requiredScope: 'tool:deploy' },
  ],
  ['M-404', '404: refused, nobody is there', status(404), 'TOOL_UNAVAILABLE'],
  ['M-400', '400 of the transport: refused', status(400, {}, 'Bad Request'), 'TOOL_REFUSED'],
  ['M-413', '413: refused, the arguments are too large for the server', status(413), 'TOOL_REFUSED'],
  [
    'M-429',
    '429: refused until later',
    status(429, { 'retry-after': '7' }),
    'TOOL_RATE_LIMITED',
    undefined,
    { retryAfterMs: 7_000 },
  ],
  ['M-429-bare', '429 without Retry-After: refused', status(429), 'TOOL_RATE_LIMITED'],
  [
    'M-503',
    '503 with Retry-After: refused until later',
    status(503, { 'retry-after': '2' }),
    'TOOL_UNAVAILABLE',
    undefined,
    { retryAfterMs: 2_000 },
  ],
  [
    'M-gone-spec',
    'a tool that vanished, in words of the specification: refused',
    error(-32_602, 'Unknown tool: write_file'),
    'TOOL_UNKNOWN',
  ],
  [
    'M-gone-v2',
    'a tool that vanished, in words of the v2 SDK: refused',
    error(-32_602, 'Tool write_file not found'),
    'TOOL_UNKNOWN',
  ],
  [
    'M-gone-v1',
    'a tool that vanished, as the v1 SDK reports it in a result: refused',
    result({ isError: true, content: [text('MCP error -32602: Tool write_file not found')] }),
    'TOOL_UNKNOWN',
  ],
  [
    'M-rpc-32602',
    'arguments that the server finds invalid: refused',
    error(-32_602, 'path is required'),
    'TOOL_REFUSED',
  ],
  ['M-rpc-32601', 'a server without tools/call: refused', error(-32_601, 'Method not found'), 'TOOL_REFUSED'],
];

/** Nothing tells these from what comes after the tool ran. */
const UNTOLD: readonly (readonly [FailureRow['id'], string, Does, FailureRow['ends']])[] = [
  ['M-500-before', '500 before it ran: unknown, nothing tells it from one after', status(500), UNKNOWN],
  [
    'M-redirect',
    'a redirect to another place: unknown, not followed',
    status(307, { location: 'http://127.0.0.1:9/mcp' }),
    REDIRECTED,
  ],
];

/** The tool has run once, and then the server does this: what must be said, and what else the row needs. */
const RAN: readonly (readonly [FailureRow['id'], string, Does, FailureRow['ends'], Partial<FailureRow>?])[] = [
  // By HTTP and the network: statuses, redirects, streams and connections that end.
  [
    'M-503-bare',
    '503 without Retry-After: unknown, proxies answer so for broken connections too',
    status(503),
    UNKNOWN,
  ],
  ['M-500-after', '500 after it ran: unknown', status(500, {}, 'oops'), UNKNOWN],
  ['M-502', '502: unknown', status(502), UNKNOWN],
  ['M-504', '504: unknown', status(504), UNKNOWN],
  [
    'M-400-session',
    "400 in words of the tool's own, which speak of a session: as any 400, and sent once (INV-X1)",
    status(400, {}, '{"error":"Your checkout session 77 was charged, but the receipt failed"}'),
    { kind: 'refused', code: 'TOOL_REFUSED' },
  ],
  [
    'M-404-session',
    '404 in the words of a session that is lost, to a call that named none: as any 404, and sent once (INV-X1)',
    status(404, {}, 'Session not found'),
    { kind: 'refused', code: 'TOOL_UNAVAILABLE' },
  ],
  [
    'M-rpc-32022',
    'the refusal of a version that a tool passes on in an answer of its own: sent once (INV-X1)',
    error(-32_022, 'Unsupported protocol version'),
    { kind: 'refused', code: 'TOOL_REFUSED' },
  ],
  ['M-409', '409: unknown, it may be the word of the tool itself', status(409), UNKNOWN],
  ...[301, 302, 307, 308].map(
    (code) =>
      [
        `M-redirect-${code}`,
        `${code} within the origin, after it ran: unknown, and the call is not sent there`,
        status(code, { location: '/mcp' }),
        REDIRECTED,
      ] as const,
  ),
  ['M-sse-eof', 'an event stream that ends without an answer: unknown', streams(': hello\n\n', 'ends'), LOST],
  ['M-sse-reset', 'an event stream whose connection breaks: unknown', streams(': hello\n\n', 'breaks'), LOST],
  ['M-reset', 'a connection that is reset before any answer: unknown', ({ reset }) => reset(), UNKNOWN],
  ['M-silent', 'silence after it ran: unknown at the deadline', () => {}, LATE, SOON],
  [
    'M-sse-silent',
    'an event stream that stays open and silent: unknown at the deadline',
    streams(': hello\n\n', 'stays'),
    LATE,
    SOON,
  ],
  ['M-json-invalid', 'JSON that is none: unknown', json('{"jsonrpc":"2.0","id":'), UNKNOWN],
  [
    'M-json-half',
    'half a JSON body: unknown',
    ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
      response.write('{"json');
      setImmediate(() => response.destroy());
    },
    UNKNOWN,
  ],
  ['M-html', 'an HTML page: unknown', status(200, { 'content-type': 'text/html' }, '<h1>Sign in</h1>'), UNKNOWN],
  ['M-202', '202 in place of an answer: unknown', status(202), LOST],
  [
    'M-sse-endless',
    'an event stream of heartbeats without end: unknown at the deadline',
    ({ response }) => drip(response),
    LATE,
    SOON,
  ],
  [
    'M-gzip-bomb',
    'a small compressed body that is a large one, and no answer: unknown',
    ({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(40 * MIB, ' ')));
    },
    UNKNOWN,
  ],
  [
    'M-sse-resumed',
    'an event stream that breaks and is resumed by event id: executed once',
    streams('id: 1\nretry: 10\ndata:\n\n', 'ends'),
    DONE,
  ],
  [
    'M-sse-lost',
    'an event stream with event ids that breaks, at a server that resumes none: unknown',
    streams('id: 1\nretry: 10\ndata:\n\n', 'ends'),
    LOST,
    { resumes: false },
  ],
  [
    'M-progress-endless',
    'progress without end: unknown at the deadline, which progress does not move (typescript-sdk#2695)',
    ({ params, response }) => {
      // Sound: the client sends a token, because progress is asked for.
      const { progressToken } = params['_meta'] as { progressToken: number };
      let progress = 0;
      drip(response, () => {
        const beat = { method: 'notifications/progress', params: { progressToken, progress: (progress += 1) } };
        return `data: ${JSON.stringify({ jsonrpc: '2.0', ...beat })}\n\n`;
      });
    },
    LATE,
    SOON,
  ],
  [
    'M-large',
    'a result of 60 MB: executed, with a result too large to keep, and read on only for what it says',
    ({ response, answerWith }) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const [head = '', tail = ''] = answerWith({ content: [text('…')] }).split('…');
      response.write(head);
      const part = Buffer.alloc(MIB, ' ');
      let left = 60;
      const next = (): void => {
        if (response.destroyed || (left -= 1) < 0) return void response.end(tail);
        response.write(part, () => setImmediate(next));
      };
      next();
    },
    TOO_LARGE,
  ],
  // By MCP: errors in JSON-RPC, results that break a promise.
  [
    'M-rpc-malformed',
    'an answer with a field too many: unknown, it is no JSON-RPC',
    (exchange) => exchange.json(exchange.answerWith({ content: [] }).replace('{', '{"error":null,')),
    UNKNOWN,
  ],
  [
    'M-rpc-other-id',
    'an answer to another request: unknown',
    json('{"jsonrpc":"2.0","id":4711,"result":{"resultType":"complete","content":[]}}'),
    LOST,
  ],
  ['M-rpc-32603', 'a JSON-RPC internal error: unknown', error(-32_603, 'Internal error'), UNKNOWN],
  ['M-rpc-own', "a JSON-RPC error of the server's own: unknown", error(-32_000, 'disk full'), UNKNOWN],
  [
    'M-rpc-32602-after',
    'a server that rejects its own result as -32602: unknown, because it has run',
    error(-32_602, 'Tool write_file has an output schema but no structured content was provided'),
    UNKNOWN,
  ],
  [
    'M-is-error',
    'isError: it ran and says that it failed',
    result({ isError: true, content: [text('no space')] }),
    FAILED,
  ],
  [
    'M-is-error-odd',
    'isError of another type: it ran, and did not say that it succeeded',
    result({ isError: 'yes', content: [] }),
    FAILED,
  ],
  [
    'M-schema-broken',
    'a structured result that breaks the output schema: executed, with a warning',
    result({ content: [], structuredContent: { n: 'seven' } }),
    {
      ...DONE,
      result: { content: [], structured: { n: 'seven' }, warnings: [expect.stringContaining('output schema')] },
    },
    PROMISED,
  ],
  [
    'M-schema-missing',
    'a promised structured result that is missing: executed, with a warning',
    result({ content: [text('ok')] }),
    { ...DONE, result: { content: [text('ok')], warnings: [expect.stringContaining('gave none')] } },
    PROMISED,
  ],
  [
    'M-content-odd',
    'content of a kind that the SDK rejects: executed, the result is not lost',
    result({ content: [{ type: 'hologram', data: 'x' }, text('ok')] }),
    { ...DONE, result: { content: [text('ok')], warnings: [expect.stringContaining('hologram')] } },
  ],
  [
    'M-input-required',
    'a result that asks for input: unknown, it may have done a part',
    result({ resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create', params: {} } } }),
    UNKNOWN,
    { eras: ['modern'] },
  ],
];

/** One event each time that the last one has gone out, until nobody listens. */
function drip(response: ServerResponse, event: () => string = () => ': still here\n\n'): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const next = (): void => {
    if (!response.destroyed) response.write(event(), () => setTimeout(next, 10));
  };
  next();
}

// What a tool server may do to a call, and what must be said of it: the kind of ending, its code, and the number of
// times that the tool really ran, as the server counted it.

export const FAILURE_ROWS: readonly FailureRow[] = [
  ...REFUSED.map(([id, title, does, code, more, facts]): FailureRow => {
    const ends = { kind: 'refused', code, ...facts };
    return { id, title, does, ends, executions: 0, ...more };
  }),
  ...UNTOLD.map(([id, title, does, ends]): FailureRow => ({ id, title, does, ends, executions: 0 })),
  ...RAN.map(([id, title, does, ends, more]): FailureRow => ({
    id,
    title,
    does: acts(does),
    ends,
    executions: 1,
    ...more,
  })),
];

export function failureSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(
    `${name}: every failure of a %s server ends in the right outcome (F7, F8, F9, F11, INV-X1)`,
    (era) => {
      let server: RawServer;
      beforeEach(async () => void (server = await startRawServer({ era })));
      afterEach(async () => server.close());

      test.each(FAILURE_ROWS.filter(({ eras }) => eras?.includes(era) !== false))(
        '$id $title',
        async ({ does, ends, executions, connection, call, resumes = true }) => {
          serveRow(server, era, { does, resumes });
          const toolServer = create();
          const ending = await toolServer.call(aConnection({ url: server.url, ...connection }), aCall(call));
          expect(ending).toMatchObject(ends);
          expect(server.executions()).toBe(executions);
          // Sent once, whatever came of it.
          expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
        },
      );
    },
  );
}

/** What a server of a row does from now on, the resumption of a broken stream included. */
export function serveRow(
  server: RawServer,
  era: Era,
  { does, resumes = true }: Pick<FailureRow, 'does'> & { resumes?: boolean },
): void {
  let broken: CallExchange | undefined;
  server.become({
    era,
    onCall: (exchange) => {
      broken = exchange;
      does(exchange);
    },
    intercept: (request, response) => {
      if (!resumes || request.headers['last-event-id'] === undefined || broken === undefined) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`id: 2\ndata: ${broken.answerWith({ content: [] })}\n\n`);
      return true;
    },
  });
}

/**
 * The ways in which a server may fail a call, over HTTP and in MCP, and what must be said of each. One file, because the
 * rows are one table.
 */
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import { aCall, aConnection, aDefinition, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { acts, type CallExchange, type Era, type RawServer, startRawServer } from '../support/servers/raw-server.ts';

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
const refused = <Code extends string>(code: Code) => ({ kind: 'refused', code }) as const;
/** Long enough for a loopback exchange on a loaded machine, short enough to wait for. */
const SOON = { timeoutMs: 1_000 };

const status = (code: number, headers?: Record<string, string>, body?: string) => (exchange: CallExchange) =>
  exchange.status(code, headers, body);

// Failures that HTTP and the network make: statuses, redirects, streams and connections that end.

const HTTP_FAILURES: readonly FailureRow[] = [
  {
    id: 'M-401',
    title: '401 with a token: refused, and the token is to blame',
    does: status(401),
    ends: refused('TOOL_UNAUTHORIZED'),
    executions: 0,
    connection: { accessToken: 'token-1234' },
  },
  {
    id: 'M-401-bare',
    title: '401 without a token: refused',
    does: status(401),
    ends: refused('TOOL_UNAUTHORIZED'),
    executions: 0,
  },
  {
    id: 'M-403',
    title: '403: refused',
    does: status(403, {}, 'not for you'),
    ends: refused('TOOL_FORBIDDEN'),
    executions: 0,
  },
  {
    id: 'M-403-scope',
    title:
      '403 insufficient_scope: refused with the scope that is missing, and no wider token is fetched (F14, INV-S2)',
    does: status(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="tool:deploy"' }),
    ends: { ...refused('TOOL_INSUFFICIENT_SCOPE'), requiredScope: 'tool:deploy' },
    executions: 0,
    connection: { accessToken: 'token-1234' },
  },
  {
    id: 'M-404',
    title: '404: refused, nobody is there',
    does: status(404),
    ends: refused('TOOL_UNAVAILABLE'),
    executions: 0,
  },
  {
    id: 'M-400',
    title: '400 of the transport: refused',
    does: status(400, {}, 'Bad Request'),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-413',
    title: '413: refused, the arguments are too large for the server',
    does: status(413),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-429',
    title: '429: refused until later',
    does: status(429, { 'retry-after': '7' }),
    ends: { ...refused('TOOL_RATE_LIMITED'), retryAfterMs: 7_000 },
    executions: 0,
  },
  {
    id: 'M-429-bare',
    title: '429 without Retry-After: refused',
    does: status(429),
    ends: refused('TOOL_RATE_LIMITED'),
    executions: 0,
  },
  {
    id: 'M-503',
    title: '503 with Retry-After: refused until later',
    does: status(503, { 'retry-after': '2' }),
    ends: { ...refused('TOOL_UNAVAILABLE'), retryAfterMs: 2_000 },
    executions: 0,
  },
  {
    id: 'M-503-bare',
    title: '503 without Retry-After: unknown, proxies answer so for broken connections too',
    does: acts(status(503)),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-500-before',
    title: '500 before it ran: unknown, nothing tells it from one after',
    does: status(500),
    ends: UNKNOWN,
    executions: 0,
  },
  {
    id: 'M-500-after',
    title: '500 after it ran: unknown',
    does: acts(status(500, {}, 'oops')),
    ends: UNKNOWN,
    executions: 1,
  },
  { id: 'M-502', title: '502: unknown', does: acts(status(502)), ends: UNKNOWN, executions: 1 },
  { id: 'M-504', title: '504: unknown', does: acts(status(504)), ends: UNKNOWN, executions: 1 },
  {
    id: 'M-409',
    title: '409: unknown, it may be the word of the tool itself',
    does: acts(status(409)),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-redirect',
    title: 'a redirect to another place: unknown, not followed',
    does: status(307, { location: 'http://127.0.0.1:9/mcp' }),
    ends: REDIRECTED,
    executions: 0,
  },
  ...[301, 302, 307, 308].map((code): FailureRow => ({
    id: `M-redirect-${code}`,
    title: `${code} within the origin, after it ran: unknown, and the call is not sent there`,
    does: acts(status(code, { location: '/mcp' })),
    ends: REDIRECTED,
    executions: 1,
  })),
  {
    id: 'M-sse-eof',
    title: 'an event stream that ends without an answer: unknown',
    does: acts(({ stream, response }) => {
      stream(': hello\n\n');
      response.end();
    }),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-sse-reset',
    title: 'an event stream whose connection breaks: unknown',
    does: acts(({ stream, response }) => {
      stream(': hello\n\n');
      setImmediate(() => response.destroy());
    }),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-reset',
    title: 'a connection that is reset before any answer: unknown',
    does: acts(({ reset }) => reset()),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-silent',
    title: 'silence after it ran: unknown at the deadline',
    does: acts(() => {}),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-sse-silent',
    title: 'an event stream that stays open and silent: unknown at the deadline',
    does: acts(({ stream }) => stream(': hello\n\n')),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-json-invalid',
    title: 'JSON that is none: unknown',
    does: acts(({ json }) => json('{"jsonrpc":"2.0","id":')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-json-half',
    title: 'half a JSON body: unknown',
    does: acts(({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
      response.write('{"json');
      setImmediate(() => response.destroy());
    }),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-html',
    title: 'an HTML page: unknown',
    does: acts(({ status: answer }) => answer(200, { 'content-type': 'text/html' }, '<h1>Sign in</h1>')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-202',
    title: '202 in place of an answer: unknown',
    does: acts(({ status: answer }) => answer(202)),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-sse-endless',
    title: 'an event stream of heartbeats without end: unknown at the deadline',
    does: acts(({ response }) => drip(response)),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-gzip-bomb',
    title: 'a small compressed body that is a large one: executed, with a result too large to keep',
    does: acts(({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(40 * 1_048_576, ' ')));
    }),
    ends: { kind: 'executed', isError: false, result: { warnings: [expect.stringContaining('larger than')] } },
    executions: 1,
  },
  {
    id: 'M-sse-resumed',
    title: 'an event stream that breaks and is resumed by event id: executed once',
    does: acts(({ stream, response }) => {
      stream('id: 1\nretry: 10\ndata:\n\n');
      response.end();
    }),
    ends: { kind: 'executed', isError: false },
    executions: 1,
  },
  {
    id: 'M-sse-lost',
    title: 'an event stream with event ids that breaks, at a server that resumes none: unknown',
    does: acts(({ stream, response }) => {
      stream('id: 1\nretry: 10\ndata:\n\n');
      response.end();
    }),
    ends: LOST,
    executions: 1,
    resumes: false,
  },
  {
    id: 'M-progress-endless',
    title: 'progress without end: unknown at the deadline, which progress does not move (typescript-sdk#2695)',
    does: acts(({ params, response }) => {
      // Sound: the client sends a token, because progress is asked for.
      const { progressToken } = params['_meta'] as { progressToken: number };
      let progress = 0;
      drip(response, () => {
        const beat = { method: 'notifications/progress', params: { progressToken, progress: (progress += 1) } };
        return `data: ${JSON.stringify({ jsonrpc: '2.0', ...beat })}\n\n`;
      });
    }),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-large',
    title: 'a result of 60 MB: executed, with a result too large to keep, and read no further than is kept',
    does: acts(({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const part = Buffer.alloc(1_048_576, ' ');
      let left = 60;
      const next = (): void => {
        if (response.destroyed || (left -= 1) < 0) return void response.end();
        response.write(part, () => setImmediate(next));
      };
      next();
    }),
    ends: { kind: 'executed', isError: false, result: { warnings: [expect.stringContaining('larger than')] } },
    executions: 1,
  },
];

/** One event each time that the last one has gone out, until nobody listens. */
function drip(response: ServerResponse, event: () => string = () => ': still here\n\n'): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const next = (): void => {
    if (!response.destroyed) response.write(event(), () => setTimeout(next, 10));
  };
  next();
}

// Failures that MCP makes: errors in JSON-RPC, tools that vanished, results that break a promise.

const SCHEMA = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

const MCP_FAILURES: readonly FailureRow[] = [
  {
    id: 'M-rpc-malformed',
    title: 'an answer with a field too many: unknown, it is no JSON-RPC',
    does: acts(({ json, answerWith }) => json(answerWith({ content: [] }).replace('{', '{"error":null,'))),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-other-id',
    title: 'an answer to another request: unknown',
    does: acts(({ json }) => json('{"jsonrpc":"2.0","id":4711,"result":{"resultType":"complete","content":[]}}')),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-gone-spec',
    title: 'a tool that vanished, in words of the specification: refused',
    does: ({ error }) => error(-32_602, 'Unknown tool: write_file'),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-gone-v2',
    title: 'a tool that vanished, in words of the v2 SDK: refused',
    does: ({ error }) => error(-32_602, 'Tool write_file not found'),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-gone-v1',
    title: 'a tool that vanished, as the v1 SDK reports it in a result: refused',
    does: ({ result }) =>
      result({ isError: true, content: [{ type: 'text', text: 'MCP error -32602: Tool write_file not found' }] }),
    ends: refused('TOOL_UNKNOWN'),
    executions: 0,
  },
  {
    id: 'M-rpc-32602',
    title: 'arguments that the server finds invalid: refused',
    does: ({ error }) => error(-32_602, 'path is required'),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-rpc-32601',
    title: 'a server without tools/call: refused',
    does: ({ error }) => error(-32_601, 'Method not found'),
    ends: refused('TOOL_REFUSED'),
    executions: 0,
  },
  {
    id: 'M-rpc-32603',
    title: 'a JSON-RPC internal error: unknown',
    does: acts(({ error }) => error(-32_603, 'Internal error')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-own',
    title: "a JSON-RPC error of the server's own: unknown",
    does: acts(({ error }) => error(-32_000, 'disk full')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-rpc-32602-after',
    title: 'a server that rejects its own result as -32602: unknown, because it has run',
    does: acts(({ error }) =>
      error(-32_602, 'Tool write_file has an output schema but no structured content was provided'),
    ),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-is-error',
    title: 'isError: it ran and says that it failed',
    does: acts(({ result }) => result({ isError: true, content: [{ type: 'text', text: 'no space' }] })),
    ends: { kind: 'executed', isError: true },
    executions: 1,
  },
  {
    id: 'M-is-error-odd',
    title: 'isError of another type: it ran, and did not say that it succeeded',
    does: acts(({ result }) => result({ isError: 'yes', content: [] })),
    ends: { kind: 'executed', isError: true },
    executions: 1,
  },
  {
    id: 'M-schema-broken',
    title: 'a structured result that breaks the output schema: executed, with a warning',
    does: acts(({ result }) => result({ content: [], structuredContent: { n: 'seven' } })),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [], structured: { n: 'seven' }, warnings: [expect.stringContaining('output schema')] },
    },
    executions: 1,
    call: { definition: aDefinition({ outputSchema: SCHEMA }) },
  },
  {
    id: 'M-schema-missing',
    title: 'a promised structured result that is missing: executed, with a warning',
    does: acts(({ result }) => result({ content: [{ type: 'text', text: 'ok' }] })),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [{ type: 'text', text: 'ok' }], warnings: [expect.stringContaining('gave none')] },
    },
    executions: 1,
    call: { definition: aDefinition({ outputSchema: SCHEMA }) },
  },
  {
    id: 'M-content-odd',
    title: 'content of a kind that the SDK rejects: executed, the result is not lost',
    does: acts(({ result }) =>
      result({
        content: [
          { type: 'hologram', data: 'x' },
          { type: 'text', text: 'ok' },
        ],
      }),
    ),
    ends: {
      kind: 'executed',
      isError: false,
      result: { content: [{ type: 'text', text: 'ok' }], warnings: [expect.stringContaining('hologram')] },
    },
    executions: 1,
  },
  {
    id: 'M-input-required',
    title: 'a result that asks for input: unknown, it may have done a part',
    does: acts(({ result }) =>
      result({ resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create', params: {} } } }),
    ),
    ends: UNKNOWN,
    executions: 1,
    eras: ['modern'],
  },
];

// What a tool server may do to a call, and what must be said of it: the kind of ending, its code, and the number of times that
// the tool really ran, as the server counted it.

export const FAILURE_ROWS = [...HTTP_FAILURES, ...MCP_FAILURES];

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

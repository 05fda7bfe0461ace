/** Failures that HTTP and the network make: statuses, redirects, streams and connections that end. */
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { expect } from '@jest/globals';
import { type FailureRow, LATE, LOST, ran, REDIRECTED, refused, SOON, status, UNKNOWN } from './tools-failure-row.ts';

export const HTTP_FAILURES: readonly FailureRow[] = [
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
    does: ran(status(503)),
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
    does: ran(status(500, {}, 'oops')),
    ends: UNKNOWN,
    executions: 1,
  },
  { id: 'M-502', title: '502: unknown', does: ran(status(502)), ends: UNKNOWN, executions: 1 },
  { id: 'M-504', title: '504: unknown', does: ran(status(504)), ends: UNKNOWN, executions: 1 },
  {
    id: 'M-409',
    title: '409: unknown, it may be the word of the tool itself',
    does: ran(status(409)),
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
    does: ran(status(code, { location: '/mcp' })),
    ends: REDIRECTED,
    executions: 1,
  })),
  {
    id: 'M-sse-eof',
    title: 'an event stream that ends without an answer: unknown',
    does: ran(({ stream, response }) => {
      stream(': hello\n\n');
      response.end();
    }),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-sse-reset',
    title: 'an event stream whose connection breaks: unknown',
    does: ran(({ stream, response }) => {
      stream(': hello\n\n');
      setImmediate(() => response.destroy());
    }),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-reset',
    title: 'a connection that is reset before any answer: unknown',
    does: ran(({ reset }) => reset()),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-silent',
    title: 'silence after it ran: unknown at the deadline',
    does: ran(() => {}),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-sse-silent',
    title: 'an event stream that stays open and silent: unknown at the deadline',
    does: ran(({ stream }) => stream(': hello\n\n')),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-json-invalid',
    title: 'JSON that is none: unknown',
    does: ran(({ json }) => json('{"jsonrpc":"2.0","id":')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-json-half',
    title: 'half a JSON body: unknown',
    does: ran(({ response }) => {
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
    does: ran(({ status: answer }) => answer(200, { 'content-type': 'text/html' }, '<h1>Sign in</h1>')),
    ends: UNKNOWN,
    executions: 1,
  },
  {
    id: 'M-202',
    title: '202 in place of an answer: unknown',
    does: ran(({ status: answer }) => answer(202)),
    ends: LOST,
    executions: 1,
  },
  {
    id: 'M-sse-endless',
    title: 'an event stream of heartbeats without end: unknown at the deadline',
    does: ran(({ response }) => drip(response)),
    ends: LATE,
    executions: 1,
    call: SOON,
  },
  {
    id: 'M-gzip-bomb',
    title: 'a small compressed body that is a large one: executed, with a result too large to keep',
    does: ran(({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(40 * 1_048_576, ' ')));
    }),
    ends: { kind: 'executed', isError: false, result: { warnings: [expect.stringContaining('larger than')] } },
    executions: 1,
  },
  {
    id: 'M-sse-resumed',
    title: 'an event stream that breaks and is resumed by event id: executed once',
    does: ran(({ stream, response }) => {
      stream('id: 1\nretry: 10\ndata:\n\n');
      response.end();
    }),
    ends: { kind: 'executed', isError: false },
    executions: 1,
  },
  {
    id: 'M-sse-lost',
    title: 'an event stream with event ids that breaks, at a server that resumes none: unknown',
    does: ran(({ stream, response }) => {
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
    does: ran(({ params, response }) => {
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
    does: ran(({ response }) => {
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

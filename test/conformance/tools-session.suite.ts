/**
 * How a call reaches a server: eras, what is known beforehand, headers, heartbeats, redirects. One file, because each
 * test is one way through the same session, and how that is left.
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import { aCall, aConnection, aDefinition, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { egressBy } from '../support/egress.ts';
import { type RawServer, type SeenRequest, startRawServer } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';

const ERAS = ['modern', 'legacy'] as const;
const OTHER = { modern: 'legacy', legacy: 'modern' } as const;

const isCall = ({ rpcMethod }: SeenRequest): boolean => rpcMethod === 'tools/call';
const methodsOf = (seen: readonly SeenRequest[]): string[] =>
  seen.map(({ httpMethod, rpcMethod }) => rpcMethod ?? httpMethod);

export function sessionSuite({ name, create }: ToolServerHarness): void {
  describe(`${name}: sessions`, () => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era: 'modern' })));
    afterEach(async () => server.close());

    test.each([
      ['auto', 'modern', ['server/discover', 'tools/call']],
      ['auto', 'legacy', ['server/discover', 'initialize', 'notifications/initialized', 'tools/call']],
      ['2026-07-28', 'modern', ['server/discover', 'tools/call']],
      ['legacy', 'legacy', ['initialize', 'notifications/initialized', 'tools/call']],
    ] as const)('protocol %s meets a %s server', async (protocol, era, requests) => {
      server.become({ era });
      expect(await create().call(aConnection({ url: server.url, protocol }), aCall())).toMatchObject({
        kind: 'executed',
      });
      expect(methodsOf(server.seen)).toEqual(requests);
    });

    test.each([
      ['2026-07-28', 'legacy'],
      ['legacy', 'modern'],
    ] as const)('protocol %s does not fall back on a %s server: not sent', async (protocol, era) => {
      server.become({ era });
      expect(await create().call(aConnection({ url: server.url, protocol }), aCall())).toMatchObject({
        kind: 'not-sent',
        code: 'TOOL_UNAVAILABLE',
      });
      expect(server.seen.some(isCall)).toBe(false);
    });

    test('a modern server that is known costs one request for a call', async () => {
      const toolServer = create();
      await toolServer.list(aConnection({ url: server.url }), new AbortController().signal);
      const before = server.seen.length;
      await toolServer.call(aConnection({ url: server.url }), aCall());
      expect(methodsOf(server.seen.slice(before))).toEqual(['tools/call']);
    });

    test.each(ERAS)('a list may use what is known of a %s server, and finds out where it is wrong', async (era) => {
      const tool = { name: 'write_file', inputSchema: { type: 'object' } };
      const pages = [[tool]];
      server.become({ era, pages });
      const toolServer = create();
      const list = async () =>
        await toolServer.list(aConnection({ url: server.url }), new AbortController().signal, { known: true });
      await list();
      const before = server.seen.length;
      expect((await list()).tools).toEqual([tool]);
      const again = methodsOf(server.seen.slice(before));
      if (era === 'modern') expect(again).toEqual(['tools/list']);
      else expect(again).not.toContain('server/discover');
      server.become({ era: OTHER[era], pages });
      expect((await list()).tools).toEqual([tool]);
    });

    test('what is known of a server without authorization is not used for one with it', async () => {
      const toolServer = create();
      await toolServer.call(aConnection({ url: server.url }), aCall());
      await toolServer.call(aConnection({ url: server.url, accessToken: 'token-1234' }), aCall());
      expect(methodsOf(server.seen)).toEqual(['server/discover', 'tools/call', 'server/discover', 'tools/call']);
    });

    test.each(ERAS)('a server that was %s and no longer is runs the call once (INV-X1, F10)', async (era) => {
      server.become({ era });
      const toolServer = create();
      await toolServer.call(aConnection({ url: server.url }), aCall());
      server.become({ era: OTHER[era] });
      expect(await toolServer.call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'executed' });
      expect(server.executions()).toBe(2);
      // And is known as what it is now.
      const before = server.seen.length;
      await toolServer.call(aConnection({ url: server.url }), aCall());
      expect(methodsOf(server.seen.slice(before))).not.toContain('server/discover');
    });

    test.each([
      [404, -32_001, 'Session not found'],
      [400, -32_000, 'Bad Request: No valid session ID provided'],
      [400, -32_000, 'Bad Request: Server not initialized'],
    ])(
      'a session that is lost (%i %i %s) is opened anew, and the call runs once (F10)',
      async (status, code, message) => {
        let lost = 0;
        server.become({
          era: 'legacy',
          sessions: true,
          onCall: (exchange) => {
            if (lost++ === 0)
              return exchange.status(
                status,
                {},
                JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }),
              );
            exchange.execute();
            exchange.result({ content: [] });
          },
        });
        expect(await create().call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'executed' });
        expect(server.executions()).toBe(1);
      },
    );

    test.each([
      [404, ''],
      [404, '{"error":"Your checkout session 77 was charged, but the receipt is not found"}'],
      [400, 'Session not found'],
      [
        400,
        JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32_000, message: 'no protocol version 2 of it' } }),
      ],
    ])('a call in a session that ends with %i "%s" may have run, and is sent once (INV-X1)', async (status, body) => {
      server.become({
        era: 'legacy',
        sessions: true,
        onCall: (exchange) => {
          exchange.execute();
          exchange.status(status, {}, body);
        },
      });
      expect(await create().call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'refused' });
      expect(server.executions()).toBe(1);
    });

    test('a server that was modern, and now has sessions, runs the call once (INV-X1, F10)', async () => {
      const toolServer = create();
      await toolServer.call(aConnection({ url: server.url }), aCall());
      const error = { code: -32_000, message: 'Bad Request: Server not initialized' };
      server.become({
        era: 'legacy',
        sessions: true,
        intercept: ({ headers }, response, method) => {
          if (method !== 'tools/call' || headers['mcp-session-id'] !== undefined) return false;
          response.writeHead(400).end(JSON.stringify({ jsonrpc: '2.0', id: null, error }));
          return true;
        },
      });
      expect(await toolServer.call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'executed' });
      expect(server.executions()).toBe(2);
    });

    test('a server that never finds its session is not asked for ever', async () => {
      server.become({ era: 'legacy', sessions: true, onCall: ({ status }) => status(404, {}, 'Session not found') });
      expect(await create().call(aConnection({ url: server.url }), aCall())).toMatchObject({
        kind: 'refused',
        code: 'TOOL_UNAVAILABLE',
      });
      expect(server.seen.filter(isCall)).toHaveLength(2);
    });

    test('a known server that refuses for another reason is not asked again', async () => {
      const toolServer = create();
      await toolServer.call(aConnection({ url: server.url }), aCall());
      server.become({ era: 'modern', onCall: ({ status }) => status(400, {}, 'no such path') });
      expect(await toolServer.call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'refused' });
      expect(server.seen.filter(isCall)).toHaveLength(2);
    });

    test.each(ERAS)('a call carries its idempotency key, its token and the configured headers (%s)', async (era) => {
      server.become({ era });
      await create().call(
        aConnection({ url: server.url, accessToken: 'token-1234', headers: { 'x-tenant': 'acme' } }),
        aCall({ idempotencyKey: 'run-7/t2.c1', arguments: { path: 'a' } }),
      );
      const { headers, params } = await server.sees(isCall);
      expect(headers).toMatchObject({
        'idempotency-key': 'run-7/t2.c1',
        authorization: 'Bearer token-1234',
        'x-tenant': 'acme',
      });
      expect(params).toMatchObject({
        name: 'write_file',
        arguments: { path: 'a' },
        _meta: { 'countersign/idempotency-key': 'run-7/t2.c1' },
      });
    });

    test('arguments are mirrored into headers as the pinned definition says (SEP-2243)', async () => {
      const definition = aDefinition({
        inputSchema: { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } },
      });
      await create().call(aConnection({ url: server.url }), aCall({ definition, arguments: { region: 'eu' } }));
      expect((await server.sees(isCall)).headers).toMatchObject({ 'mcp-param-region': 'eu' });
    });

    test('no client capability is declared, so a server has nothing to ask back', async () => {
      server.become({ era: 'legacy' });
      await create().call(aConnection({ url: server.url }), aCall());
      expect((await server.sees(({ rpcMethod }) => rpcMethod === 'initialize')).params).toMatchObject({
        capabilities: {},
      });
    });

    test('a server that asks without end is not answered without end, and its result counts', async () => {
      let answers = 0;
      let lastAt = 0;
      server.become({
        era: 'legacy',
        // No answer is taken: each holds its connection.
        intercept: (_request, _response, rpcMethod, id) => {
          if (rpcMethod !== undefined || id === undefined) return false;
          answers += 1;
          lastAt = Date.now();
          return true;
        },
        onCall: (exchange) => {
          exchange.execute();
          const ping = (id: number): string => `data: ${JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' })}\n\n`;
          exchange.stream(Array.from({ length: 500 }, (_, at) => ping(at)).join(''));
          void until(() => answers >= 64 && Date.now() - lastAt > 200, { what: 'the last answer' }).then(() =>
            exchange.response.end(`data: ${exchange.answerWith({ content: [] })}\n\n`),
          );
        },
      });
      const ending = await create().call(aConnection({ url: server.url }), aCall());
      expect({ kind: ending.kind, answers }).toEqual({ kind: 'executed', answers: 64 });
    });

    test('heartbeats say connecting, sent, progress, answered', async () => {
      server.become({
        era: 'modern',
        onCall: ({ response, params, answerWith }) => {
          // Sound: the client sends a token, because progress is asked for.
          const { progressToken } = params['_meta'] as { progressToken: number };
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          const progress = {
            jsonrpc: '2.0',
            method: 'notifications/progress',
            params: { progressToken, progress: 3, total: 9, message: 'private' },
          };
          response.end(`data: ${JSON.stringify(progress)}\n\ndata: ${answerWith({ content: [] })}\n\n`);
        },
      });
      const call = aCall();
      await create().call(aConnection({ url: server.url }), call);
      const sentAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);
      expect(call.beats).toEqual([
        { phase: 'connecting' },
        { phase: 'sent', sentAt },
        { phase: 'sent', sentAt, progress: 3, total: 9 },
        { phase: 'answered' },
      ]);
    });

    test('a call that never left has no time at which it did', async () => {
      const away = await startRawServer({ era: 'modern' });
      const toolServer = create();
      const connection = aConnection({ url: away.url });
      await toolServer.call(connection, aCall());
      await away.close();
      // What is known of the server is used: the call would be the first request.
      const call = aCall();
      expect(await toolServer.call(connection, call)).toMatchObject({ kind: 'not-sent' });
      expect(call.beats).toEqual([{ phase: 'connecting' }]);
    });

    test('the token does not follow a redirect to another origin (H-5, F15)', async () => {
      const other = await startRawServer({ era: 'modern' });
      server.become({ era: 'modern', onCall: ({ status }) => status(307, { location: other.url }) });
      await create().call(aConnection({ url: server.url, accessToken: 'token-1234' }), aCall());
      await other.close();
      expect(other.seen).toEqual([]);
    });

    test.each(['modern', 'legacy'] as const)(
      'a %s server that moved within its origin is called where it is, also by the next session (INV-X1)',
      async (era) => {
        server.become({
          era,
          intercept: (request, response) => {
            if (request.url !== '/mcp') return false;
            response.writeHead(307, { location: '/mcp/' }).end();
            return true;
          },
        });
        const toolServer = create();
        const connection = aConnection({ url: server.url });
        for (const _ of [1, 2]) expect(await toolServer.call(connection, aCall())).toMatchObject({ kind: 'executed' });
        expect(server.executions()).toBe(2);
        expect(server.seen.filter(isCall)).toHaveLength(2);
      },
    );

    test.each(ERAS)('a redirect of a %s server leads only the caller that got it (RFC 9110 §15.4.8)', async (era) => {
      const placeOf = (token = ''): string => `/u/${token.replace('Bearer token-', '')}/mcp`;
      const asked: string[] = [];
      server.become({
        era,
        intercept: ({ url = '', headers: { authorization } }, response) => {
          if (url !== '/mcp') asked.push(`${url} by ${placeOf(authorization)}`);
          if (url !== '/mcp') return false;
          response.writeHead(307, { location: placeOf(authorization) }).end();
          return true;
        },
      });
      const toolServer = create();
      for (const accessToken of ['token-alice', 'token-bob']) {
        const connection = aConnection({ url: server.url, accessToken });
        expect(await toolServer.call(connection, aCall())).toMatchObject({ kind: 'executed' });
        await toolServer.list(connection, new AbortController().signal, { known: true });
      }
      expect(new Set(asked)).toEqual(new Set(['/u/alice/mcp by /u/alice/mcp', '/u/bob/mcp by /u/bob/mcp']));
      expect(server.executions()).toBe(2);
    });

    test('two calls at once with two tokens: the server sees each its own (S1.1)', async () => {
      const toolServer = create();
      const tokens = ['token-aaaa', 'token-bbbb'];
      await Promise.all(
        tokens.map((accessToken) =>
          toolServer.call(aConnection({ url: server.url, accessToken }), aCall({ arguments: { accessToken } })),
        ),
      );
      const pairs = server.seen
        .filter(isCall)
        .map(({ headers, params }) => [headers.authorization, params['arguments']]);
      expect(pairs).toEqual(expect.arrayContaining(tokens.map((token) => [`Bearer ${token}`, { accessToken: token }])));
    });

    test('where every request breaks off the call is not sent', async () => {
      const broken = create({ egress: egressBy(() => Promise.reject(new TypeError('fetch failed'))) });
      // Known beforehand, so that the call is the first request.
      expect(await broken.call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'not-sent' });
    });
  });
}

export function stopSuite({ name, create }: ToolServerHarness): void {
  describe(`${name}: cancellation and servers that are not there`, () => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era: 'modern' })));
    afterEach(async () => server.close());

    test('a cancelled call reaches a modern server as a closed stream, and its outcome is unknown (F37)', async () => {
      const cancel = new AbortController();
      const gone = new Promise<void>((resolve) => {
        server.become({
          era: 'modern',
          onCall: ({ execute, response }) => {
            execute();
            response.on('close', () => resolve());
            cancel.abort(new Error('Ann pressed stop in run-7'));
          },
        });
      });
      const ending = await create().call(aConnection({ url: server.url }), aCall({ signal: cancel.signal }));
      await gone;
      expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
      expect(server.executions()).toBe(1);
    });

    test('a cancelled call is announced to a legacy server without our reason, and its session is ended (F37)', async () => {
      const cancel = new AbortController();
      server.become({
        era: 'legacy',
        sessions: true,
        onCall: () => cancel.abort(new Error('Ann pressed stop in run-7')),
      });
      const ending = await create().call(aConnection({ url: server.url }), aCall({ signal: cancel.signal }));
      expect(ending).toMatchObject({ kind: 'unknown' });
      const notice = await server.sees(({ rpcMethod }) => rpcMethod === 'notifications/cancelled');
      expect(JSON.stringify(notice.params)).not.toContain('Ann');
      expect((await server.sees(({ httpMethod }) => httpMethod === 'DELETE')).headers['mcp-session-id']).toBe(
        'session-1',
      );
    });

    test('a call that is cancelled while its broken stream is resumed ends, and so does its session (typescript-sdk#2646)', async () => {
      const cancel = new AbortController();
      server.become({
        era: 'legacy',
        sessions: true,
        onCall: ({ execute, stream, response }) => {
          execute();
          stream('id: 1\nretry: 10\ndata:\n\n');
          response.end();
        },
        intercept: (request, response) => {
          if (request.headers['last-event-id'] === undefined) return false;
          // Resumed, and then nothing.
          response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
          cancel.abort();
          return true;
        },
      });
      const ending = await create().call(aConnection({ url: server.url }), aCall({ signal: cancel.signal }));
      expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
      expect(server.executions()).toBe(1);
      expect(await server.sees(({ httpMethod }) => httpMethod === 'DELETE')).toBeDefined();
    });

    test('the session of a finished call is ended too', async () => {
      server.become({ era: 'legacy', sessions: true });
      await create().call(aConnection({ url: server.url }), aCall());
      expect(server.seen.at(-1)?.httpMethod).toBe('DELETE');
    });

    test('a server that will not let go does not hold the result back', async () => {
      server.become({ era: 'legacy', sessions: true, intercept: ({ method }) => method === 'DELETE' });
      expect(await create().call(aConnection({ url: server.url }), aCall())).toMatchObject({ kind: 'executed' });
    });

    test('a call cancelled before it is sent is not sent', async () => {
      const ending = await create().call(aConnection({ url: server.url }), aCall({ signal: AbortSignal.abort() }));
      expect(ending).toMatchObject({ kind: 'not-sent' });
      expect(server.seen).toEqual([]);
    });

    test('a call cancelled while connecting is not sent', async () => {
      const cancel = new AbortController();
      server.become({
        era: 'modern',
        intercept: () => {
          cancel.abort();
          return true;
        },
      });
      const ending = await create().call(aConnection({ url: server.url }), aCall({ signal: cancel.signal }));
      expect(ending).toMatchObject({ kind: 'not-sent' });
      expect(server.seen.some(isCall)).toBe(false);
    });

    test.each([
      ['hangs', 'not-sent', 'TOOL_UNAVAILABLE', undefined],
      ['401', 'refused', 'TOOL_UNAUTHORIZED', undefined],
      ['403', 'refused', 'TOOL_FORBIDDEN', undefined],
      ['404', 'not-sent', 'TOOL_UNAVAILABLE', undefined],
      ['429', 'not-sent', 'TOOL_RATE_LIMITED', 3_000],
      ['500', 'not-sent', 'TOOL_UNAVAILABLE', undefined],
      ['503', 'not-sent', 'TOOL_UNAVAILABLE', 3_000],
    ] as const)('a server that answers the first request with %s: %s, %s', async (status, kind, code, retryAfterMs) => {
      server.become({
        era: 'modern',
        intercept: (_, response) => {
          if (status !== 'hangs')
            response.writeHead(Number(status), retryAfterMs === undefined ? {} : { 'retry-after': '3' }).end();
          return true;
        },
      });
      const toolServer = create(status === 'hangs' ? { connectMs: 500 } : {});
      const ending = await toolServer.call(aConnection({ url: server.url }), aCall());
      expect(ending).toMatchObject({ kind, code, ...defined({ retryAfterMs }) });
      expect(server.seen.some(isCall)).toBe(false);
    });

    test.each(['fresh', 'known'] as const)('a server that is down: not sent (%s)', async (how) => {
      const toolServer = create();
      if (how === 'known') await toolServer.call(aConnection({ url: server.url }), aCall());
      await server.close();
      expect(await toolServer.call(aConnection({ url: server.url }), aCall())).toMatchObject({
        kind: 'not-sent',
        code: 'TOOL_UNAVAILABLE',
      });
      expect(server.executions()).toBe(how === 'known' ? 1 : 0);
      server = await startRawServer({ era: 'modern' });
    });

    test('a host that has no address: not sent', async () => {
      const ending = await create().call(aConnection({ url: 'https://nowhere.invalid/mcp' }), aCall());
      expect(ending).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
    });
  });
}

/** Calls that are cancelled, sessions that are left, servers that are not there. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import { aCall, aConnection } from '../support/mcp-call.ts';
import { type RawServer, type SeenRequest, startRawServer } from '../support/mcp-raw-server.ts';
import type { ToolServerHarness } from './tools.suite.ts';

const isCall = ({ rpcMethod }: SeenRequest): boolean => rpcMethod === 'tools/call';

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

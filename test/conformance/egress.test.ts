/** What each user of the one way out makes of a refusal: a code of its own, no second try, nothing sent (F15, F28). */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import type { Egress } from '../../activities/egress/fetch.ts';
import { createLedgerWebhook } from '../../activities/ledger/webhook.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { createAiSdkModel } from '../../activities/models/ai-sdk.ts';
import { createTrustedKeys, createTrustUrl } from '../../activities/trust/keys.ts';
import { aCall, aConnection } from '../support/activities/tool-call.ts';
import { chainOf, recordOf } from '../support/builders/ledger-record.ts';
import { loopbackEgress } from '../support/egress.ts';
import { modelRequest } from '../support/models/request.ts';
import { brokerFor, requestFor, withClient } from '../support/oauth/broker.ts';
import { startHostile } from '../support/oauth/provider.ts';
import { withCode } from '../support/refusal.ts';
import { WEBHOOK_SECRET } from '../support/servers/ledger-receiver.ts';
import { listenOnLoopback, type LoopbackServer } from '../support/servers/loopback-server.ts';
import { type CallExchange, startRawServer } from '../support/servers/raw-server.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
function kept<T extends { close(): Promise<void> }>(server: T): T {
  closing.push(() => server.close());
  return server;
}

/** This machine may be contacted; the name `rebound.localhost` is there so often, and then at the metadata service. */
function reboundAfter(times: number): { readonly egress: Egress; lookups(): number } {
  let lookups = 0;
  const resolve = async () => {
    lookups += 1;
    return [{ address: lookups > times ? '169.254.169.254' : '127.0.0.1' }];
  };
  return { egress: loopbackEgress({ resolve }), lookups: () => lookups };
}
const under = (url: string): string => url.replace('127.0.0.1', 'rebound.localhost');
const REFUSED = { code: 'EGRESS_FORBIDDEN', message: expect.stringContaining('rebound.localhost') };

describe('a tool server at a forbidden address', () => {
  const toolServer = (egress: Egress) => createMcpToolServer({ artifacts: createMemoryStore(), egress });

  test('its tools are not listed, and the code is final', async () => {
    const server = kept(await listenOnLoopback());
    const { egress, lookups } = reboundAfter(0);
    const listed = toolServer(egress).list(aConnection({ url: under(server.origin) }), AbortSignal.timeout(20_000));
    await expect(listed).rejects.toMatchObject({ ...REFUSED, traits: { retryable: false } });
    expect([server.connections(), lookups()]).toEqual([0, 1]);
  });

  test.each(['auto', 'legacy', '2026-07-28'] as const)(
    'a call is refused, not "not sent", which would be tried again (%s)',
    async (protocol) => {
      const server = kept(await listenOnLoopback());
      const { egress, lookups } = reboundAfter(0);
      const ending = await toolServer(egress).call(aConnection({ url: under(server.origin), protocol }), aCall());
      expect(ending).toMatchObject({ kind: 'refused', ...REFUSED });
      expect([server.connections(), lookups()]).toEqual([0, 1]);
    },
  );

  test.each(['modern', 'legacy'] as const)(
    'that moves there once the session stands: the call is refused, and has not run (%s)',
    async (era) => {
      // Each answer ends its connection, so that each request looks the name up anew.
      const server = kept(
        await startRawServer({
          era,
          intercept: (_request, response) => (response.setHeader('connection', 'close'), false),
        }),
      );
      let looked = 0;
      const resolve = async () => {
        looked += 1;
        return [
          {
            address: server.seen.some(({ rpcMethod }) => rpcMethod === 'initialize' || rpcMethod === 'server/discover')
              ? '10.0.0.1'
              : '127.0.0.1',
          },
        ];
      };
      const ending = await toolServer(loopbackEgress({ resolve })).call(
        aConnection({ url: under(server.url), protocol: era === 'legacy' ? 'legacy' : 'auto' }),
        aCall(),
      );
      expect(ending).toMatchObject({ kind: 'refused', ...REFUSED });
      expect(looked).toBeGreaterThan(1);
      expect(server.executions()).toBe(0);
      expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toEqual([]);
    },
  );

  test('INV-X1: that moves there while a call is under way: what was sent stays sent, and is unknown', async () => {
    let sent = false;
    const onCall = ({ execute, stream, response }: CallExchange): void => {
      execute();
      sent = true;
      stream('id: 1\nretry: 10\ndata:\n\n');
      response.end();
    };
    const intercept = (_request: unknown, response: { setHeader(name: string, value: string): unknown }) => (
      response.setHeader('connection', 'close'),
      false
    );
    const server = kept(await startRawServer({ era: 'modern', onCall, intercept }));
    const resolve = async () => [{ address: sent ? '169.254.169.254' : '127.0.0.1' }];
    const ending = await toolServer(loopbackEgress({ resolve })).call(aConnection({ url: under(server.url) }), aCall());
    expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
    expect(server.executions()).toBe(1);
  });

  test('F15: a redirect to another origin is not followed, and a token stays where it was sent', async () => {
    const other: LoopbackServer = kept(await listenOnLoopback());
    const server = kept(
      await startRawServer({ era: 'modern', onCall: ({ status }) => status(307, { location: `${other.origin}/mcp` }) }),
    );
    const connection = aConnection({ url: server.url, accessToken: 'canary' });
    const ending = await toolServer(loopbackEgress()).call(connection, aCall());
    expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
    expect([other.connections(), server.executions()]).toEqual([0, 0]);
  });

  test('a redirect within the origin is followed, and the address is judged anew', async () => {
    let moved = false;
    const intercept = (_request: unknown, response: ServerResponse): boolean => {
      moved = true;
      response.writeHead(307, { connection: 'close', location: '/elsewhere' }).end();
      return true;
    };
    const server = kept(await startRawServer({ era: 'modern', intercept }));
    const resolve = async () => [{ address: moved ? '192.168.0.1' : '127.0.0.1' }];
    const ending = await toolServer(loopbackEgress({ resolve })).call(aConnection({ url: under(server.url) }), aCall());
    expect(ending).toMatchObject({ kind: 'refused', ...REFUSED });
    expect([moved, server.executions()]).toEqual([true, 0]);
  });
});

describe('an authorization server', () => {
  test('at a forbidden address is not asked, and the secret stays here', async () => {
    const server = kept(await startHostile({}));
    const { egress, lookups } = reboundAfter(0);
    const broker = brokerFor(withClient(under(server.issuer)), { egress });
    await expect(broker.mint(requestFor('notes'))).rejects.toMatchObject({ ...REFUSED, traits: { retryable: false } });
    expect([server.discoveries(), server.seen, lookups()]).toEqual([0, [], 1]);
  });

  const token = () => ({ body: { access_token: 'at-1', token_type: 'Bearer', expires_in: 60 } });
  test('may have its token endpoint elsewhere where the operator names that', async () => {
    const elsewhere = kept(await startHostile({ token }));
    const server = kept(
      await startHostile({ metadata: (issuer) => ({ body: { issuer, token_endpoint: `${elsewhere.issuer}/token` } }) }),
    );
    const config = { ...withClient(server.issuer), egress: { issuerEndpoints: [elsewhere.issuer] } };
    expect(await brokerFor(config).mint(requestFor('notes'))).toMatchObject({ accessToken: 'at-1' });
    await expect(brokerFor(withClient(server.issuer)).mint(requestFor('notes'))).rejects.toMatchObject(
      withCode('EGRESS_FORBIDDEN', 'egress.issuerEndpoints'),
    );
  });
});

test.each(['openai', 'anthropic', 'openai-compatible'] as const)(
  'a model at a forbidden address is not asked (%s)',
  async (provider) => {
    const server = kept(await listenOnLoopback());
    const { egress, lookups } = reboundAfter(0);
    const baseUrl = under(`${server.origin}/v1`);
    const config = { provider, model: 'm', apiKey: 'key-canary', baseUrl, maxOutputTokens: 10, timeoutSeconds: 10 };
    await expect(createAiSdkModel('main', config, egress).step(modelRequest())).rejects.toMatchObject({
      ...REFUSED,
      message: expect.stringMatching(/^models\.main was not contacted: rebound\.localhost /),
      traits: { retryable: false },
    });
    expect([server.connections(), lookups()]).toEqual([0, 1]);
  },
);

test('trusted keys at a forbidden address are not believed', async () => {
  const server = kept(await listenOnLoopback());
  const { egress } = reboundAfter(0);
  const keys = createTrustedKeys(
    { may: { say: SENDERS, stop: SENDERS }, maxAgeSeconds: 900 },
    createTrustUrl(under(server.origin), egress),
  );
  await expect(keys.setFor('default', 'new')).rejects.toMatchObject(REFUSED);
  expect(server.connections()).toBe(0);
});
const SENDERS = { initiator: true, ids: [], groups: [] };

test('a ledger webhook at a forbidden address gets nothing, and the run waits: nothing accepted is lost (INV-D3)', async () => {
  const server = kept(await listenOnLoopback());
  const { egress } = reboundAfter(0);
  const url = under(`${server.origin}/path-canary`);
  const sink = createLedgerWebhook({ url, secret: WEBHOOK_SECRET, timeoutSeconds: 5 }, egress);
  const error: unknown = await sink.deliver(recordOf(chainOf(2))).catch((caught: unknown) => caught);
  expect(error).toMatchObject({
    code: 'LEDGER_UNAVAILABLE',
    message: expect.stringMatching(/ledger\.webhook was not contacted \(EGRESS_FORBIDDEN\)/),
    traits: { retryable: true },
  });
  expect(String(error)).not.toMatch(/canary|rebound/);
  expect(server.connections()).toBe(0);
});

/** What a server says over real sockets, and what its limits make of it for the calls that come after (failure matrix: 429, 503, connect refused, 5xx). */
import { afterEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { ServerLimits, withinLimits } from '../../activities/limits/server-limits.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { CallEnding, ServerConnection, ToolServer } from '../../activities/mcp/port.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { ServerLimits as Limits } from '../../contracts/schemas/config.ts';
import { aCall, aConnection } from '../support/activities/tool-call.ts';
import { approvedDispatch } from '../support/builders/dispatch.ts';
import { loopbackEgress } from '../support/egress.ts';
import { type CallExchange, type Era, type RawServer, startRawServer } from '../support/servers/raw-server.ts';

const adapter = createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress(), connectMs: 2_000 });
const servers: RawServer[] = [];

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function serving(onCall: (exchange: CallExchange) => void, era: Era = 'modern'): Promise<RawServer> {
  const server = await startRawServer({ era, onCall });
  servers.push(server);
  return server;
}

/** Dispatches to one server, in order. */
function desk(url: string, limits: (typeof Limits)['_zod']['input'] = {}) {
  const clock = { now: Date.now() };
  const gate = new ServerLimits({
    configured: new Map([[url, { name: 'files', limits: Limits.parse(limits) }]]),
    tell: () => {},
    now: () => clock.now,
    random: () => 0,
  });
  let dispatches = 0;
  const call = async (
    tenant = 'acme',
    connection: Partial<ServerConnection> = {},
  ): Promise<CallEnding | DispatchResult> => {
    dispatches += 1;
    let ending: CallEnding | undefined;
    const result = await withinLimits(
      gate,
      adapter,
      inputOf(url, tenant, `call-${dispatches}`),
      async (server: ToolServer) => {
        ending = await server.call(aConnection({ url, ...connection }), aCall());
        return { kind: 'ended', outcome: { kind: 'cancelled', reason: 'the test reads the ending' } };
      },
    );
    return ending ?? result;
  };
  return { call, clock };
}

function inputOf(url: string, tenant: string, idempotencyKey: string): DispatchInput {
  const input = approvedDispatch();
  return {
    ...input,
    server: { name: 'files', url },
    idempotencyKey,
    run: { ...input.run, initiator: { id: 'eve', groups: [], tenant } },
    limits: { resultBytes: 1_024, callTimeoutSeconds: 120 },
  };
}

describe.each(['modern', 'legacy'] as const)('Retry-After of a %s server', (era) => {
  test.each([
    [429, 'TOOL_RATE_LIMITED', 'refused'],
    [503, 'TOOL_UNAVAILABLE', 'not-sent'],
  ] as const)(
    '%i, %s: the next call is not sent, and is told the rest; one of another tenant is %s',
    async (status, code, other) => {
      const server = await serving((exchange) => exchange.status(status, { 'retry-after': '7' }), era);
      const { call, clock } = desk(server.url);
      expect(await call()).toMatchObject({ kind: 'refused', code, retryAfterMs: 7_000 });
      expect(await call()).toMatchObject({
        kind: 'not-sent',
        retryAfterMs: 7_000,
        held: { by: 'retry-after', atMostSeconds: 3_600 },
      });
      expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
      expect((await call('other')).kind).toBe(other);
      clock.now += 7_000;
      expect((await call()).kind).toBe('refused');
    },
  );
});

describe('a breaker', () => {
  const breaker = { failures: 2, withinSeconds: 600, openSeconds: 60 };

  test('opens on a server that is not there', async () => {
    const gone = await serving(() => {});
    await gone.close();
    const { call } = desk(gone.url, { breaker });
    for (const _ of [1, 2]) expect(await call()).toMatchObject({ kind: 'not-sent', fault: 'failure' });
    expect(await call()).toMatchObject({ held: { by: 'breaker' } });
  });

  test.each([
    ['500', (exchange: CallExchange) => exchange.status(500)],
    ['a connection that is reset', (exchange: CallExchange) => exchange.reset()],
    ['503 without a time', (exchange: CallExchange) => exchange.status(503)],
  ])('opens on %s', async (_, onCall) => {
    const { call } = desk((await serving(onCall)).url, { breaker });
    for (const __ of [1, 2]) expect(await call()).toMatchObject({ kind: 'unknown', fault: 'failure' });
    expect(await call()).toMatchObject({ held: { by: 'breaker' } });
  });
});

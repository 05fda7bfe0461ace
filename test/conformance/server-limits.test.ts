/** What a server says over real sockets, and what its limits make of it for the calls that come after (failure matrix: 429, 503, connect refused, 5xx). */
import { afterEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { type LimitEvent, ServerLimits, withinLimits } from '../../activities/limits/server-limits.ts';
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
  const told: LimitEvent[] = [];
  const gate = new ServerLimits({
    configured: new Map([[url, { name: 'files', limits: Limits.parse(limits) }]]),
    tell: (event) => told.push(event),
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
  return { call, clock, told };
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
  const answers = (status: number, after: () => string) =>
    serving((exchange) => exchange.status(status, { 'retry-after': after() }), era);

  test('seconds: the next call is not sent, and is told the rest', async () => {
    const server = await answers(429, () => '7');
    const { call } = desk(server.url);
    expect(await call()).toMatchObject({ kind: 'refused', code: 'TOOL_RATE_LIMITED', retryAfterMs: 7_000 });
    expect(await call()).toMatchObject({
      kind: 'not-sent',
      retryAfterMs: 7_000,
      held: { by: 'retry-after', atMostSeconds: 3_600 },
    });
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
    // 429 is about whoever asked.
    expect(await call('other')).toMatchObject({ kind: 'refused' });
  });

  test('an HTTP date', async () => {
    const server = await answers(503, () => new Date(Date.now() + 60_000).toUTCString());
    const { call, clock } = desk(server.url);
    expect(await call()).toMatchObject({ kind: 'refused', code: 'TOOL_UNAVAILABLE', fault: 'failure' });
    const held = await call('other');
    expect(held).toMatchObject({ kind: 'not-sent', held: { by: 'retry-after' } });
    // Dates have whole seconds, and the exchange took some time.
    if (held.kind !== 'not-sent' || held.retryAfterMs === undefined) throw new Error('no time');
    expect(held.retryAfterMs).toBeLessThanOrEqual(60_000);
    expect(held.retryAfterMs).toBeGreaterThan(30_000);
    clock.now += 60_000;
    expect((await call()).kind).toBe('refused');
  });

  test('a date that is over, and what is no date, hold nobody', async () => {
    for (const after of ['Wed, 21 Oct 2015 07:28:00 GMT', 'soon', '-5']) {
      const server = await answers(429, () => after);
      const { call } = desk(server.url);
      await call();
      expect((await call()).kind).toBe('refused');
    }
  });

  test('a year is capped: at a day for the call, at five minutes for all others', async () => {
    const server = await answers(503, () => '31536000');
    const { call } = desk(server.url);
    expect(await call()).toMatchObject({ retryAfterMs: 86_400_000 });
    expect(await call()).toMatchObject({ retryAfterMs: 300_000 });
  });
});

describe('a breaker', () => {
  const breaker = { failures: 2, withinSeconds: 600, openSeconds: 60 };

  test('opens on a server that is not there, lets one try, and closes when it answers', async () => {
    const gone = await serving(() => {});
    const { url } = gone;
    await gone.close();
    const { call, clock, told } = desk(url, { breaker });
    for (const _ of [1, 2]) expect(await call()).toMatchObject({ kind: 'not-sent', fault: 'failure' });
    expect(await call()).toMatchObject({ code: 'TOOL_UNAVAILABLE', retryAfterMs: 60_000, held: { by: 'breaker' } });
    clock.now += 60_000;
    expect(await call()).toMatchObject({ kind: 'not-sent', fault: 'failure' });
    expect(await call()).toMatchObject({ held: { by: 'breaker' } });
    expect(told.flatMap((event) => (event.kind === 'breaker' ? [event.state] : []))).toEqual([
      'open',
      'half-open',
      'open',
    ]);
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

  test.each([
    ['a tool that fails', (exchange: CallExchange) => exchange.result({ isError: true, content: [] })],
    ['400', (exchange: CallExchange) => exchange.status(400)],
    ['403', (exchange: CallExchange) => exchange.status(403)],
    ['404', (exchange: CallExchange) => exchange.status(404)],
    ['429', (exchange: CallExchange) => exchange.status(429)],
    ['an error of JSON-RPC', (exchange: CallExchange) => exchange.error(-32_603, 'broken')],
  ])('stays closed on %s, however often', async (_, onCall) => {
    const { call } = desk((await serving(onCall)).url, { breaker });
    for (const __ of [1, 2, 3, 4]) expect(await call()).not.toHaveProperty('held');
  });
});

/**
 * A worker process is killed (SIGKILL) with single calls at each step of their life (S2.3, F1, F2, INV-X1): made by the
 * library and over HTTP, asked about and not. By the servers' own logs a call that may not be repeated ran at most
 * once, its caller hears that nobody knows, and asking again under the id sends nothing.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { SingleCall } from '../../client/index.ts';
import { StartedCall } from '../../contracts/schemas/http/calls.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { KILL_POINTS, type KillPoint, type KillServer, startKillServer } from '../support/faults/kill-points.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { type FaultRoute, type FaultWorld, startFaultRoute, startFaultWorld } from '../support/faults/world.ts';
import {
  type Caller,
  callerOf,
  startTestGateway,
  startTestProvider,
  type TestProvider,
} from '../support/scenes/gateway-world.ts';
import type { Era } from '../support/servers/raw-server.ts';
import { factsOf, replayOwn } from '../support/world/run-record.ts';
import { startWorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;
jest.setTimeout(RECOVERY_MS);

/** What the server did before the worker died. */
const RAN: Readonly<Record<KillPoint, 0 | 1>> = {
  'before the session': 0,
  'connected, not sent': 0,
  'sent, not acted on': 0,
  'acted on, not answered': 1,
  'answered, not completed': 1,
};

/** `http` goes through the gateway; `again` is repeatable; policy lets `free` pass, and asks about the others. */
const WAYS = ['library', 'http', 'again', 'free'] as const;
type Way = (typeof WAYS)[number];

/** A call that needs nobody begins with its list and its session, so it is held from the sending on. */
function waysAt(point: KillPoint): readonly Way[] {
  const begins = point === 'before the session' || point === 'connected, not sent';
  return WAYS.filter((way) => way !== 'free' || !begins);
}

const nameOf = (way: Way, point: KillPoint): string => `${way}-${point.replaceAll(/\W+/g, '-')}`;

describe.each<Era>(['modern', 'legacy'])('kill -9 of the worker in mid-call, at servers of the %s era', (era) => {
  const points = KILL_POINTS[era];
  const made = points.flatMap((point) => waysAt(point).map((way) => [way, point] as const));
  const servers = new Map<KillPoint, KillServer>();
  const calls = new Map<string, SingleCall>();
  let world: FaultWorld;
  let route: FaultRoute;
  let provider: TestProvider;
  let gateway: Gateway;
  let backend: Caller;

  const serverAt = (point: KillPoint): KillServer => {
    const server = servers.get(point);
    if (server === undefined) throw new Error(`there is no server for ${point}`);
    return server;
  };
  const callOf = (way: Way, point: KillPoint): SingleCall => {
    const call = calls.get(nameOf(way, point));
    if (call === undefined) throw new Error(`there is no call ${nameOf(way, point)}`);
    return call;
  };

  /** The same call under the same id each time. */
  async function make(way: Way, point: KillPoint): Promise<SingleCall> {
    const name = nameOf(way, point);
    const said = { server: name, tool: 'act' };
    if (way === 'http') {
      const { body } = await backend('POST', '/v1/calls', { ...said, runId: name });
      return new SingleCall(world.countersign.run(name), StartedCall.parse(body).started);
    }
    const call = { ...said, initiator: { id: 'ann' } };
    return await world.countersign.call({ runId: name, taskQueue: world.config.taskQueue, call });
  }

  beforeAll(async () => {
    for (const point of points) servers.set(point, await startKillServer(era, point));
    const configured: ConfigInput['servers'] = Object.fromEntries(
      made.map(([way, point]) => [
        nameOf(way, point),
        {
          url: serverAt(point).url,
          credentials: { kind: 'none' as const },
          ...(way === 'again' ? { repeatable: ['act'] } : {}),
          recheckSeconds: point === 'before the session' ? 0 : 3_600,
        },
      ]),
    );
    const free = made.filter(([way]) => way === 'free');
    world = await startFaultWorld({
      config: {
        taskQueue: `single-${era}`,
        servers: configured,
        policy: {
          unknownOutcomes: 'record',
          approvers: { ids: ['bob'] },
          servers: Object.fromEntries(free.map(([way, point]) => [nameOf(way, point), { default: 'allow' as const }])),
        },
      },
    });
    provider = await startTestProvider();
    gateway = await startTestGateway(world, provider, { config: { may: { start: { ids: ['ann'] } } } });
    backend = callerOf(gateway, await provider.token({ sub: 'ann', lives: 3_600 }));
    const { address, namespace } = world.engine.server;
    // The way of this worker to Temporal, which can be cut while the worker goes on.
    route = await startFaultRoute(`http://${address}/`);
    const worker = await startWorkerProcess({
      configFile: world.configFile,
      bundleFile: join(world.engine.directory, 'bundle.json'),
      address: new URL(route.url).host,
      namespace,
    });
    const asked = made.filter(([way]) => way !== 'free');
    for (const [way, point] of asked) calls.set(nameOf(way, point), await make(way, point));
    const requests = await Promise.all(
      [...calls.values()].map(async ({ run }) => ({ run, open: await openRequests(run) })),
    );
    for (const server of servers.values()) server.arm();
    for (const [way, point] of free) calls.set(nameOf(way, point), await make(way, point));
    await Promise.all(
      requests.map(async ({ run, open: [request] }) => {
        if (request === undefined) throw new Error('there is no request');
        await run.decide(decisionOn(request, 'bob'));
      }),
    );
    for (const [point, server] of servers) await server.held(waysAt(point).length);
    await route.cut();
    await serverAt('answered, not completed').answer();
    await worker.kill();
    for (const server of servers.values()) server.disarm();
    await world.startWorker();
  });

  afterAll(async () => {
    await gateway?.stop();
    await world?.stop();
    await Promise.all([provider?.close(), route?.close(), ...[...servers.values()].map((server) => server.close())]);
  });

  test.each(made.filter(([way]) => way !== 'again'))(
    'one made by way of %s, killed %s, ran at most once, and its caller hears that nobody knows',
    async (way, point) => {
      const { run } = callOf(way, point);
      const answer = await callOf(way, point).answer({ deadlineMs: RECOVERY_MS });
      expect(answer).toMatchObject({ callId: 't1.c0', outcome: { kind: 'unknown' } });
      const log = serverAt(point).calls;
      expect(executionsOf(log, run, 't1.c0')).toBe(RAN[point]);
      const ledger = await expectSound(run, log);
      expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
      // Whoever asks again under the id is told the same, and nothing leaves.
      const again = await make(way, point);
      expect(again.started).toBe(false);
      expect(await again.answer()).toEqual(answer);
      expect(executionsOf(log, run, 't1.c0')).toBe(RAN[point]);
    },
  );

  test.each(made.filter(([way]) => way === 'again'))(
    'one of a tool that the operator calls repeatable (%s), killed %s, is sent again under the same key',
    async (way, point) => {
      const { run } = callOf(way, point);
      const answer = await callOf(way, point).answer({ deadlineMs: RECOVERY_MS });
      expect(answer).toMatchObject({ outcome: { kind: 'succeeded' } });
      const log = serverAt(point).calls;
      expect(executionsOf(log, run, 't1.c0')).toBe(RAN[point] + 1);
      await expectSound(run, log, { repeatable: ['act'] });
      const keys = log.map(({ headers }) => String(headers['idempotency-key']));
      expect(new Set(keys.filter((key) => key.startsWith(`${run.runId}/t1.c0/`))).size).toBe(1);
    },
  );

  test('over HTTP the caller hears the same of a call that was killed', async () => {
    const { body } = await backend('GET', `/v1/calls/${nameOf('http', 'acted on, not answered')}?waitSeconds=30`);
    expect(body).toMatchObject({ status: 'ended', answer: { outcome: { kind: 'unknown' } } });
  });

  test('what was left behind replays', async () => {
    await replayOwn(world);
  });
});

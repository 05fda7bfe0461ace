/**
 * A worker process is killed (SIGKILL) with calls at each step of their life, in both protocol eras (F1, F2, F9,
 * INV-X1): by the servers' own logs a call that may not be repeated ran at most once, and nothing is claimed of it that
 * nobody knows.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { modelText } from '../../domain/views/model-text.ts';
import { KILL_POINTS, type KillPoint, type KillServer, startKillServer } from '../support/faults/kill-points.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { type FaultRoute, type FaultWorld, startFaultRoute, startFaultWorld } from '../support/faults/world.ts';
import type { Era } from '../support/servers/raw-server.ts';
import { factsOf, replayOwn, results } from '../support/world/run-record.ts';
import { startWorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
jest.setTimeout(180_000);

/** What the server did before the worker died. */
const RAN: Readonly<Record<KillPoint, 0 | 1>> = {
  'before the session': 0,
  'connected, not sent': 0,
  'sent, not acted on': 0,
  'acted on, not answered': 1,
  'answered, not completed': 1,
};

const slug = (point: KillPoint): string => point.replaceAll(/\W+/g, '-');

describe.each<Era>(['modern', 'legacy'])(
  'kill -9 of the worker, its calls under way at servers of the %s era',
  (era) => {
    const points = KILL_POINTS[era];
    const servers = new Map<KillPoint, KillServer>();
    const runs = new Map<string, RunHandle>();
    let world: FaultWorld;
    let route: FaultRoute;

    const kinds = ['once', 'again'] as const;
    const nameOf = (kind: (typeof kinds)[number], point: KillPoint): string => `${kind}-${slug(point)}`;
    const partOf = <T>(parts: ReadonlyMap<unknown, T>, key: unknown): T => {
      const part = parts.get(key);
      if (part === undefined) throw new Error(`there is no ${String(key)}`);
      return part;
    };

    beforeAll(async () => {
      for (const point of points) servers.set(point, await startKillServer(era, point));
      const names = points.flatMap((point) => kinds.map((kind) => ({ kind, point, name: nameOf(kind, point) })));
      const configured: ConfigInput['servers'] = Object.fromEntries(
        names.map(({ kind, point, name }) => [
          name,
          {
            url: partOf(servers, point).url,
            credentials: { kind: 'none' as const },
            ...(kind === 'again' ? { repeatable: ['act'] } : {}),
            recheckSeconds: point === 'before the session' ? 0 : 3_600,
          },
        ]),
      );
      world = await startFaultWorld({
        config: {
          taskQueue: `killed-${era}`,
          servers: configured,
          policy: { unknownOutcomes: 'record', approvers: { ids: ['bob'] } },
          models: Object.fromEntries(
            names.map(({ name }) => [
              name,
              { provider: 'scripted', script: { steps: [{ calls: [{ tool: `${name}/act` }] }, { text: 'Done.' }] } },
            ]),
          ),
        },
      });
      const { address, namespace } = world.engine.server;
      // The way of this worker to Temporal, which can be cut while the worker goes on.
      route = await startFaultRoute(`http://${address}/`);
      const { configFile } = world;
      const bundleFile = join(world.engine.directory, 'bundle.json');
      const worker = await startWorkerProcess({
        configFile,
        bundleFile,
        address: new URL(route.url).host,
        namespace,
      });
      for (const { name } of names) runs.set(name, await world.start(name, { servers: [{ name }] }));
      const requests = await Promise.all(
        [...runs.values()].map(async (run) => ({ run, open: await openRequests(run) })),
      );
      for (const server of servers.values()) server.arm();
      await Promise.all(
        requests.map(async ({ run, open: [request] }) => {
          if (request === undefined) throw new Error('there is no request');
          await run.decide(decisionOn(request, 'bob'));
        }),
      );
      for (const server of servers.values()) await server.held(kinds.length);
      await route.cut();
      await partOf(servers, 'answered, not completed').answer();
      await worker.kill();
      for (const server of servers.values()) server.disarm();
      await world.startWorker();
    });

    afterAll(async () => {
      await world?.stop();
      await Promise.all([route?.close(), ...[...servers.values()].map((server) => server.close())]);
    });

    test.each(points)(
      'M-killed %s: a call that may not be repeated is never sent again, and its outcome is unknown',
      async (point) => {
        const run = partOf(runs, nameOf('once', point));
        const { calls } = partOf(servers, point);
        expect(await run.result()).toMatchObject({ status: 'completed' });
        expect(executionsOf(calls, run, 't1.c0')).toBe(RAN[point]);
        const ledger = await expectSound(run, calls);
        expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
        expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' }]);
        const [told] = await results(world, run);
        expect(told === undefined ? '' : modelText(told.outcome).text).toMatch(/not known whether .* Do not repeat it/);
      },
    );

    test.each(points)(
      'M-killed %s: one that the operator calls repeatable is sent again, under the same key',
      async (point) => {
        const run = partOf(runs, nameOf('again', point));
        const { calls } = partOf(servers, point);
        expect(await run.result()).toMatchObject({ status: 'completed' });
        expect(executionsOf(calls, run, 't1.c0')).toBe(RAN[point] + 1);
        const ledger = await expectSound(run, calls, { repeatable: ['act'] });
        expect(factsOf(ledger, 'dispatched').map(({ attempt }) => attempt)).toEqual([1, 2]);
        expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
      },
    );

    test('what was left behind replays', async () => {
      await replayOwn(world);
    });
  },
);

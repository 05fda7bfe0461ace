/** The last question about a task, on real workers: what a worker that stops in the middle of it, or a server that is away, decides (ADR 0041). */
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { factsOf } from '../support/world/run-record.ts';
import { digs, newestOf, taskOf, useTaskScene } from '../support/scenes/tasks.ts';
import type { TaskServer } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';
import type { World } from '../support/world/world.ts';

const LONG_MS = 120_000;

const scene = useTaskScene();
let server: TaskServer;
let world: World;
beforeAll(() => {
  ({ server, world } = scene());
});
afterEach(() => server.become({}));

const cancelling = { by: 'ann', reason: 'enough', inFlight: 'cancel' } as const;

test(
  'INV-D3: a worker that is stopped in the middle of it: the next one has the task cancelled',
  async () => {
    let isHeld = false;
    const working = { begins: { pollInterval: 300_000 }, get: () => ({ status: 'working' }) };
    server.become({ ...working, intercept: (method) => method === 'tasks/get' && (isHeld = true) });
    const run = await world.start(digs());
    await taskOf(run);
    await run.stop(cancelling);
    await until(() => (isHeld ? true : undefined), { what: 'the last question' });
    const stopping = world.restartWorkers();
    server.become(working);
    await stopping;
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(newestOf(server).cancelled).toBe(true);
    const [outcome] = factsOf(await run.ledger(), 'outcome');
    expect(outcome).toMatchObject({ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' });
  },
  LONG_MS,
);

test(
  'INV-D3: a result that is away for a moment: it is had all the same',
  async () => {
    let refusals = 0;
    server.become({
      begins: { pollInterval: 300_000 },
      intercept: (method, response) =>
        method === 'tasks/result' && (refusals += 1) < 3 && (response.writeHead(503).end('deploying'), true),
    });
    const run = await world.start(digs());
    await taskOf(run);
    await run.stop(cancelling);
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(refusals).toBe(3);
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  },
  LONG_MS,
);

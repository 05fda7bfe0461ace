/**
 * What an operator sees of a worker process, as Prometheus reads it and in its log: a server's limits, once for each
 * change, and the count of refused queries (docs/adr/0044).
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isRefusedQuery } from '../../contracts/failure.ts';
import { METRICS } from '../../contracts/metrics.ts';
import { freePort } from '../../workers/dev-server.ts';
import { plainClient } from '../support/engine.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { outcomesAtEnd, replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { openRequests } from '../support/world/world.ts';

let world: FaultWorld;
let server: RawServer;
let office: RecordingServer;
let port: number;

beforeAll(async () => {
  server = await startRawServer({
    era: 'modern',
    tools: {
      wait: (exchange) => void open.push(exchange),
      break: (exchange) => exchange.status(500),
    },
  });
  [office, port] = await Promise.all([startRecordingServer(), freePort()]);
  const script = (tool: string, count = 1) => {
    const calls = Array.from({ length: count }, (_, index) => ({ tool, arguments: { index } }));
    return { provider: 'scripted' as const, script: { steps: [{ calls }, { text: 'done' }] } };
  };
  world = await startFaultWorld({
    config: {
      policy: { strategy: 'never', unknownOutcomes: 'record', servers: { office: { default: 'ask' } } },
      metrics: { prometheus: `127.0.0.1:${port}` },
      models: { waits: script('desk/wait', 3), breaks: script('desk/break'), pays: script('office/pay') },
      servers: {
        desk: {
          url: server.url,
          credentials: { kind: 'none' },
          limits: { concurrency: 2, breaker: { failures: 1, withinSeconds: 60, openSeconds: 1 } },
        },
        office: { url: office.url, credentials: { kind: 'none' } },
      },
    },
  });
  worker = await world.startWorker();
}, 120_000);
afterAll(async () => {
  await replayOwn(world);
  await world.stop();
  await Promise.all([server.close(), office.close()]);
});

const DESK = { servers: [{ name: 'desk' }] };

let worker: WorkerProcess;
const open: CallExchange[] = [];

/** Lines of one metric about the server, without the labels that Temporal adds. */
async function metric(name: string): Promise<readonly string[]> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const lines = (await response.text()).split('\n');
  return lines.filter((line) => line.startsWith(`${name}{`) && line.includes('server="desk"'));
}

async function shows(name: string, fits: RegExp): Promise<void> {
  await until(async () => (await metric(name)).some((line) => fits.test(line)), {
    what: `${name} like ${String(fits)}`,
    instead: () => metric(name),
  });
}

test('calls under way, calls that were held back and by what, and the state of the breaker, by server', async () => {
  const run = await world.start('waits', DESK);
  await shows(METRICS.running, / 2$/);
  await shows(METRICS.held, /by="concurrency".* [1-9]\d*$/);
  let over = false;
  const result = run.result().finally(() => (over = true));
  await until(() => {
    for (const exchange of open.splice(0)) exchange.result({ content: [] });
    return over;
  });
  await result;
  await shows(METRICS.running, / 0$/);

  const broken = await world.start('breaks', DESK);
  await shows(METRICS.breaker, / 2$/);
  expect(await outcomesAtEnd(broken)).toEqual({ 't1.c0': 'unknown' });
  const again = await world.start('waits', DESK);
  await until(() => {
    for (const exchange of open.splice(0)) exchange.result({ content: [] });
    return world.countersign
      .run(again.runId)
      .state()
      .then(({ status }) => status === 'completed');
  });
  await shows(METRICS.breaker, / 0$/);
  const told = worker.output().match(/breaker/g) ?? [];
  // Open, half-open, closed: however many calls came meanwhile.
  expect(told).toHaveLength(3);
});

/** The lines of the metric, each as its workflow and its number. */
async function counted(): Promise<readonly string[]> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  expect(response.status).toBe(200);
  return [...(await response.text()).matchAll(new RegExp(`^${METRICS.refusedQueries}\\{(.*)\\} (\\d+)$`, 'gm'))].map(
    ([, labels = '', count]) => `${/workflow="(\w*)"/.exec(labels)?.[1]} ${count}`,
  );
}

test('a query that is refused counts once, by workflow; the one that is answered then counts for nothing', async () => {
  const run = await world.start('pays', { servers: [{ name: 'office' }] });
  await openRequests(run);
  await worker.kill();
  await world.startWorker();
  // The task for which the new worker rebuilds the run: what comes behind it is refused once.
  await run.advance();
  const handle = plainClient(world.client).workflow.getHandle(run.runId);
  await until(async () => !(await handle.describe()).raw.pendingWorkflowTask, { what: 'rest' });
  expect(await counted()).toEqual([]);
  const refusal: unknown = await handle.query('state').catch((error: unknown) => error);
  expect(isRefusedQuery(refusal)).toBe(true);
  const once = ['agentRun 1'];
  await until(async () => (await counted()).length > 0, { what: 'a count', instead: counted });
  expect(await counted()).toEqual(once);
  await handle.query('state');
  expect(await counted()).toEqual(once);
});

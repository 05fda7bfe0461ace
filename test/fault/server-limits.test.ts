/** What an operator sees of a server's limits: metrics as Prometheus reads them, and the log of a worker process, once for each change. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { METRICS } from '../../contracts/names.ts';
import { freePort } from '../../workers/dev-server.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { outcomes, replayOwn } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';

let world: FaultWorld;
let server: RawServer;
let worker: WorkerProcess;
let port: number;
const open: CallExchange[] = [];

beforeAll(async () => {
  server = await startRawServer({
    era: 'modern',
    tools: {
      wait: (exchange) => void open.push(exchange),
      break: (exchange) => exchange.status(500),
    },
  });
  port = await freePort();
  const calls = (tool: string, count: number) =>
    Array.from({ length: count }, (_, index) => ({ tool: `desk/${tool}`, arguments: { index } }));
  const script = (tool: string, count: number) => ({
    provider: 'scripted' as const,
    script: { steps: [{ calls: calls(tool, count) }, { text: 'done' }] },
  });
  world = await startFaultWorld({
    config: {
      policy: { strategy: 'never', unknownOutcomes: 'record' },
      metrics: { prometheus: `127.0.0.1:${port}` },
      models: { waits: script('wait', 3), breaks: script('break', 1) },
      servers: {
        desk: {
          url: server.url,
          credentials: { kind: 'none' },
          limits: { concurrency: 2, breaker: { failures: 1, withinSeconds: 60, openSeconds: 1 } },
        },
      },
    },
  });
  worker = await world.startWorker();
}, 120_000);
afterAll(async () => {
  await replayOwn(world);
  await world.stop();
  await server.close();
});

/** Lines of one metric about the server, without the labels that Temporal adds. */
async function metric(name: string): Promise<readonly string[]> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const lines = (await response.text()).split('\n');
  return lines.filter((line) => line.startsWith(`${name}{`) && line.includes('server="desk"'));
}

async function shows(name: string, fits: RegExp): Promise<void> {
  await until(async () => ((await metric(name)).some((line) => fits.test(line)) ? true : undefined), {
    what: `${name} like ${String(fits)}`,
    instead: () => metric(name),
  });
}

test('calls under way, calls that were held back and by what, and the state of the breaker, by server', async () => {
  const run = await world.start('waits');
  await shows(METRICS.running, / 2$/);
  await shows(METRICS.held, /by="concurrency".* [1-9]\d*$/);
  let over = false;
  const result = run.result().finally(() => (over = true));
  await until(() => {
    for (const exchange of open.splice(0)) exchange.result({ content: [] });
    return over ? true : undefined;
  });
  await result;
  await shows(METRICS.running, / 0$/);

  const broken = await world.start('breaks');
  await shows(METRICS.breaker, / 2$/);
  await broken.result();
  expect(await outcomes(broken)).toEqual({ 't1.c0': 'unknown' });
  const again = await world.start('waits');
  await until(() => {
    for (const exchange of open.splice(0)) exchange.result({ content: [] });
    return world.countersign
      .run(again.runId)
      .state()
      .then(({ status }) => (status === 'completed' ? true : undefined));
  });
  await shows(METRICS.breaker, / 0$/);
  const told = worker.output().match(/breaker/g) ?? [];
  // Open, half-open, closed: however many calls came meanwhile.
  expect(told).toHaveLength(3);
});

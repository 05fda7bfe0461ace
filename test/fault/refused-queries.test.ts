/** What operators see of a refused query (docs/adr/0044): the count, at the address of a worker process that Prometheus reads. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { METRICS } from '../../contracts/names.ts';
import { isRefusedQuery } from '../../contracts/failure.ts';
import { freePort } from '../../workers/dev-server.ts';
import { plainClient } from '../support/engine.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { openRequests } from '../support/world/world.ts';

let server: RecordingServer;
let world: FaultWorld;
let port: number;

beforeAll(async () => {
  [server, port] = await Promise.all([startRecordingServer(), freePort()]);
  world = await startFaultWorld({
    config: {
      metrics: { prometheus: `127.0.0.1:${port}` },
      servers: { office: { url: server.url, credentials: { kind: 'none' } } },
      models: {
        pays: { provider: 'scripted', script: { steps: [{ calls: [{ tool: 'office/pay' }] }, { text: 'done' }] } },
      },
    },
  });
}, 120_000);
afterAll(async () => {
  await replayOwn(world);
  await world.stop();
  await server.close();
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
  const before = await world.startWorker();
  const run = await world.start('pays');
  await openRequests(run);
  await before.kill();
  await world.startWorker();
  // The task for which the new worker rebuilds the run: what comes behind it is refused once.
  await run.advance();
  const handle = plainClient(world.client).workflow.getHandle(run.runId);
  await until(async () => ((await handle.describe()).raw.pendingWorkflowTask ? undefined : true), { what: 'rest' });
  expect(await counted()).toEqual([]);
  const refusal: unknown = await handle.query('state').catch((error: unknown) => error);
  expect(isRefusedQuery(refusal)).toBe(true);
  const once = ['agentRun 1'];
  await until(async () => ((await counted()).length > 0 ? true : undefined), { what: 'a count', instead: counted });
  expect(await counted()).toEqual(once);
  await handle.query('state');
  expect(await counted()).toEqual(once);
});

/** Runs that do not go on are counted by what a real server says of them (INV-D1): also those that nobody has opened. */
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import { stuckRuns } from '../../gateway/projection/visibility.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { until } from '../support/until.ts';
import { startEngine } from '../support/engine.ts';
import { during } from '../support/world/during.ts';

/** Temporal marks a run after five attempts, with pauses between them. */
const MARKED_MS = 120_000;
jest.setTimeout(2 * MARKED_MS);

const engine = during(() => startEngine());

/** True if the server marks such runs; the dev server of the tests may be too old. */
async function marksRuns(): Promise<boolean> {
  const { connection } = await engine.connect();
  const { serverVersion } = await connection.workflowService.getSystemInfo({});
  const [major = 0, minor = 0] = serverVersion.split('.').map(Number);
  return major > 1 || minor >= 30;
}

test('a run of a broken build is counted where Temporal marks it; an older Temporal says that it cannot tell', async () => {
  const client = await engine.connect();
  const { signal } = new AbortController();
  if (!(await marksRuns())) return expect(await stuckRuns(client, signal)).toBeUndefined();
  expect(await stuckRuns(client, signal)).toBe(0);
  const { code } = await bundleWorkflows(join(import.meta.dirname, '../support/forgery/broken-workflows.ts'));
  const connection = await NativeConnection.connect({ address: engine.server.address });
  const { namespace } = engine.server;
  const worker = await Worker.create({ connection, namespace, taskQueue: 'broken', workflowBundle: { code } });
  await worker.runUntil(async () => {
    await client.workflow.start('agentRun', { workflowId: 'stuck', taskQueue: 'broken' });
    await until(async () => (await stuckRuns(client, signal)) === 1, {
      what: 'a run that is marked',
      withinMs: MARKED_MS,
    });
  });
  await client.workflow.getHandle('stuck').terminate();
  await connection.close();
});

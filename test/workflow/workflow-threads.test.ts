/** Calls into a workflow thread have no time limit, and a thread that is silent ends its worker (docs/adr/0064). */
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import { WorkerThreadClient } from '@temporalio/worker/lib/workflow/threaded-vm.js';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { replaceThreads } from '../../workers/workflow-threads.ts';
import { startEngine } from '../support/engine.ts';
import { during } from '../support/world/during.ts';

const sent = jest.spyOn(WorkerThreadClient.prototype, 'send');
// A thread is silent after two seconds.
replaceThreads({ lookMs: 100, looks: 20 });

const engine = during(() => startEngine());

/** A worker that serves this file of workflows alone. */
async function workerOf(file: string): Promise<{ worker: Worker; connection: NativeConnection }> {
  const { code } = await bundleWorkflows(join(import.meta.dirname, '../support/forgery', file));
  const connection = await NativeConnection.connect({ address: engine.server.address });
  const worker = await Worker.create({ connection, taskQueue: file, workflowBundle: { code } });
  return { worker, connection };
}

test('the SDK hands no limit to its threads', async () => {
  sent.mockClear();
  const { worker, connection } = await workerOf('broken-workflows.ts');
  const running = worker.run();
  worker.shutdown();
  await running;
  await connection.close();
  const begun = sent.mock.calls.flatMap(([input]) => (input.type === 'init' ? [input] : []));
  expect(begun.length).toBeGreaterThan(0);
  for (const { isolateExecutionTimeoutMs } of begun) expect(isolateExecutionTimeoutMs).toBeUndefined();
});

test('a thread that never answers ends its worker', async () => {
  const file = 'endless-workflow.ts';
  const { worker, connection } = await workerOf(file);
  const client = await engine.connect();
  const running = worker.run();
  const ended = expect(running).rejects.toThrow(/Workflow Worker Thread/);
  await client.workflow.start('agentRun', { workflowId: 'endless', taskQueue: file });
  await ended;
  await connection.close();
});

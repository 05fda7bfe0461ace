/** Workers whose code throws on a run hold it up and lose nothing; whoever asks meanwhile hears it with a code (INV-D1). */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import { bundleWorkflows, createTracing } from '../../workers/bundle.ts';
import { runCommand } from '../support/cli.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  world = await startWorld({ config: { servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

/** In place of the workers, one of a broken build. */
async function withBrokenBuild(act: () => Promise<void>): Promise<void> {
  const { code } = await bundleWorkflows(
    fileURLToPath(new URL('../support/forgery/broken-workflows.ts', import.meta.url)),
  );
  const connection = await NativeConnection.connect({ address: world.engine.server.address });
  const { taskQueue } = world.config;
  const worker = await Worker.create({
    connection,
    taskQueue,
    workflowBundle: { code },
    plugins: [createTracing('off')],
  });
  await worker.runUntil(act);
  await connection.close();
}

test('RUN_STUCK while a broken build serves it; after the build is rolled back the run goes on from where it was', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'stuck' } }] }, { text: 'done' }]);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  const handle = world.client.workflow.getHandle(run.runId);
  await world.workers.stop();
  await withBrokenBuild(async () => {
    // Something to work on, which no task gets done.
    await handle.signal('decide', decisionOn(request, 'ann'));
    const hurried = world.hurried(3_000).run(run.runId);
    const refusal = await until(
      async () => {
        const told = await refusalOf(hurried.state());
        return told.code === 'RUN_STUCK' ? told : undefined;
      },
      { what: 'RUN_STUCK', withinMs: 90_000 },
    );
    expect(refusal).toMatchObject({ facts: { runId: run.runId } });
    expect(refusal.message).toContain('See it in Temporal UI');
    expect(await refusalOf(hurried.requests())).toMatchObject({ code: 'RUN_STUCK' });
    // Read from history by this build, which is a sound one.
    const { address } = world.engine.server;
    const shown = await runCommand(['requests', run.runId, '--address', address], {
      directory: world.engine.directory,
    });
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of ['this build replays all of it', 't1.c0  bank/pay', request.digest])
      expect(shown.out).toContain(part);
  });
  expect(bank.callsFor('stuck')).toEqual([]);
  await world.restartWorkers();
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  expect(bank.callsFor('stuck')).toHaveLength(1);
}, 180_000);

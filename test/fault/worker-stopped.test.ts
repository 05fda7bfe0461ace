/**
 * A worker process is asked to end (SIGTERM), as at every deploy, or stands still for a while and comes back (F1, F5,
 * F7): INV-X1 holds all the same.
 */
import { describe, expect, jest, test } from '@jest/globals';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { startModelProvider } from '../support/models/provider.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);

const server = during(() => startRecordingServer());
const base = during(() => worldOf('base', 30, {}, {}));

/** Tool calls that this worker has finished, by its own log. */
function completedCalls(worker: WorkerProcess): number {
  return worker
    .output()
    .split('\n')
    .filter((line) => line.includes('"activityType":"callTool"') && line.includes('"message":"Activity completed"'))
    .length;
}

/** Each on a queue of its own, so that no worker of another test takes its work. */
async function worldOf(
  name: string,
  shutdownGraceSeconds: number,
  models: FaultWorld['config']['models'] = {},
  shared: Partial<Pick<FaultWorld, 'engine' | 'bundle'>> = { engine: base.engine, bundle: base.bundle },
): Promise<FaultWorld> {
  return await startFaultWorld({
    ...shared,
    config: {
      taskQueue: name,
      servers: { once: { url: server.url, credentials: { kind: 'none' } } },
      policy: { unknownOutcomes: 'record', servers: { once: { tools: { slow: 'allow', lookup: 'allow' } } } },
      models: {
        [name]: {
          provider: 'scripted',
          script: { steps: [{ calls: [{ tool: 'once/slow', arguments: { purpose: name } }] }, { text: 'Done.' }] },
        },
        ...models,
      },
      worker: { shutdownGraceSeconds },
      log: { level: 'debug' },
    },
  });
}

describe('SIGTERM in the middle of a tool call', () => {
  test('`countersign worker`: the call finishes within the grace time, and its result counts', async () => {
    const world = await worldOf('patient', 30);
    try {
      const worker = await world.startWorker({ shipped: true });
      const run = await world.start('patient');
      await server.held('patient');
      worker.terminate();
      server.release('patient');
      expect(await worker.ended).toBe(0);

      await world.startWorker();
      expect(await run.result()).toMatchObject({ status: 'completed' });
      expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
      expect(factsOf(await expectSound(run, server.calls), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
      await replayOwn(world);
    } finally {
      await world.stop();
    }
  });

  test('a call that outlasts the grace time is given up: the server hears of it, and the outcome is unknown at once', async () => {
    const world = await worldOf('hasty', 1);
    try {
      const worker = await world.startWorker();
      const run = await world.start('hasty');
      await server.held('hasty');
      worker.terminate();
      expect(await worker.ended).toBe(0);
      expect(server.abandoned('hasty')).toBe(1);

      await world.startWorker();
      expect(await run.result()).toMatchObject({ status: 'completed' });
      const ledger = await expectSound(run, server.calls);
      expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' }]);
      const { events } = await world.client.workflow.getHandle(run.runId).fetchHistory();
      // It was the worker that said so, not the heartbeat timeout.
      expect(
        events?.some(
          ({ activityTaskTimedOutEventAttributes: timedOut }) => timedOut !== null && timedOut !== undefined,
        ),
      ).toBe(false);
      await replayOwn(world);
    } finally {
      await world.stop();
    }
  });
});

test('SIGTERM during a model step: the next worker repeats the step at once', async () => {
  const provider = await startModelProvider(chatDialect.schema);
  const world = await worldOf('pensive', 1, {
    remote: {
      provider: 'openai-compatible',
      model: chatDialect.model,
      baseUrl: provider.baseUrl,
      maxOutputTokens: 256,
      timeoutSeconds: 60,
    },
  });
  try {
    const events = chatDialect.events(said([{ type: 'text', text: 'Done.' }]));
    provider.enqueue(answered(events.slice(0, 1), 'hang'), answered(events));
    const worker = await world.startWorker();
    const run = await world.start('remote');
    const { left } = await provider.hanging();
    worker.terminate();
    await left;
    expect(await worker.ended).toBe(0);

    await world.startWorker();
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.' });
    expect(provider.received).toHaveLength(2);
    await expectSound(run, server.calls);
    await replayOwn(world);
  } finally {
    await world.stop();
    await provider.close();
  }
});

test('a worker that stood still past the heartbeat timeout and comes back with an answer changes nothing (F5)', async () => {
  const world = await worldOf('zombie', 30);
  try {
    const zombie = await world.startWorker();
    const run = await world.start('zombie');
    await server.held('zombie');
    zombie.freeze();
    await world.startWorker();
    expect(await run.result()).toMatchObject({ status: 'completed' });
    const before = await traceOf(world, run.runId);

    server.release('zombie');
    zombie.thaw();
    await until(() => completedCalls(zombie) > 0, { what: 'the late answer' });
    // It ends only when Temporal has answered all that it had to say.
    zombie.terminate();
    expect(await zombie.ended).toBe(0);
    expect(await traceOf(world, run.runId)).toEqual(before);
    expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
    expect(factsOf(await expectSound(run, server.calls), 'outcome')).toMatchObject([{ outcome: 'unknown' }]);
    await replayOwn(world);
  } finally {
    await world.stop();
  }
});

/**
 * A query waits at Temporal while the worker that has its run in memory is away for seconds. Meanwhile somebody else
 * takes the run's next task and never answers. The worker comes back soon, and gets the query with that task in it. It
 * lacks nothing else, so that only the time at which the question was asked tells it that the task is not its own
 * (INV-D1, docs/adr/0091).
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { askedAt } from '../../contracts/failure.ts';
import type { Recorded } from '../../workers/replay/recorded-history.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../workers/replay/semantics.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { plainClient } from '../support/engine.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { until } from '../support/until.ts';
import { executions, replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Temporal hands out queries and tasks in no order, so that some runs' tasks are taken before their queries. */
const RUNS = 24;
jest.setTimeout(300_000);
/** Should few tasks be taken before their queries. */
const MOST_PLAYS = 4;
/** Queries are on their way to Temporal, and as far ahead of all tasks as Temporal leaves them with an absent worker. */
const AHEAD_MS = 2_000;

let holder: WorkerProcess;

const server = during(() => startRecordingServer());
const calls = [{ tool: 'office/pay', arguments: { purpose: 'held' } }];
const world = during(async () =>
  startFaultWorld({
    config: {
      taskQueue: 'held',
      servers: { office: { url: server.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['bob'] } },
      models: { payer: { provider: 'scripted', script: { steps: [{ calls }, { text: 'Done.' }] } } },
    },
    client: { taskQueue: 'held' },
    bundle: await sharedBundle(),
  }),
);
beforeAll(async () => {
  holder = await world.startWorker();
});

/** Temporal sends what comes next to the common queue at once, which it does otherwise after `stickyQueueTimeoutMs`. */
async function letGo(run: RunHandle): Promise<void> {
  const { connection, options } = world.client;
  await connection.workflowService.resetStickyTaskQueue({
    namespace: options.namespace,
    execution: { workflowId: run.runId },
  });
}

/** Takes so many queries and tasks as another worker that never answers; returns the ids of the runs whose task it has, and whose query. */
async function takeInstead(most: number): Promise<{ tasks: Set<string>; queries: Set<string> }> {
  const { connection, options } = world.client;
  const taken = { tasks: new Set<string>(), queries: new Set<string>() };
  const poll = async (): Promise<void> => {
    const task = await connection.withDeadline(Date.now() + 10_000, async () =>
      connection.workflowService.pollWorkflowTaskQueue({
        namespace: options.namespace,
        taskQueue: { name: world.config.taskQueue, kind: 1 },
        identity: 'never answers',
      }),
    );
    const id = task.workflowExecution?.workflowId ?? '';
    (task.query ? taken.queries : taken.tasks).add(id);
  };
  await Promise.all(Array.from({ length: most }, poll));
  return taken;
}

/** Asks once: a client would ask again while no answer comes. */
async function stateOf(runId: string, args: unknown[]): Promise<unknown> {
  return await plainClient(world.client)
    .workflow.getHandle(runId)
    .query('state', ...args);
}

/** Returns runs whose task somebody else had while this worker got their query, and what a replay makes of runs otherwise. */
async function played(ask: (run: RunHandle) => Promise<unknown>): Promise<{ met: string[]; damaged: string[] }> {
  const runs = await Promise.all(Array.from({ length: RUNS }, async () => await world.start('payer')));
  const decisions = await Promise.all(
    runs.map(async (run) => {
      const [request] = await openRequests(run);
      return decisionOn(request, 'bob');
    }),
  );
  holder.freeze();
  await Promise.all(runs.map(letGo));
  const asked = runs.map(ask);
  const since = Date.now();
  await until(() => Date.now() - since > AHEAD_MS, { what: 'queries well ahead of the tasks' });
  // A signal, which Temporal takes although nobody is there.
  for (const [at, { runId }] of runs.entries())
    await world.client.workflow.getHandle(runId).signal('decide', decisions[at]);
  const { tasks, queries } = await takeInstead(RUNS);
  holder.thaw();
  await Promise.allSettled(asked);
  const results = await Promise.all(runs.map((run) => run.result()));
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['completed']));
  for (const run of runs) await expectSound(run, server.calls);
  const recorded: Recorded[] = [];
  for (const { runId: workflowId } of runs)
    for (const { history } of await executions(world, workflowId))
      recorded.push({ kind: 'history', name: workflowId, workflowId, history });
  const damaged: string[] = [];
  const replay = { bundle: await sharedBundle(bundleForReading), config: world.config };
  for await (const { name, error } of compareHistories(recorded, replay))
    if (error !== undefined) damaged.push(`${name}: ${error.message}`);
  return { met: [...tasks].filter((id) => !queries.has(id)), damaged };
}

test('INV-D1: it is refused, and each run is what a replay makes of it', async () => {
  const met: string[] = [];
  for (let plays = 0; plays < MOST_PLAYS && met.length < 3; plays += 1) {
    const play = await played(async ({ runId }) => stateOf(runId, askedAt([], Date.now())));
    expect(play.damaged).toEqual([]);
    met.push(...play.met);
  }
  expect(met.length).toBeGreaterThanOrEqual(3);
  await replayOwn(world);
});

test('control: where it does not say when it was asked, it is answered, and damages its run', async () => {
  const damaged: string[] = [];
  for (let plays = 0; plays < MOST_PLAYS && damaged.length === 0; plays += 1) {
    const play = await played(async ({ runId }) => stateOf(runId, []));
    damaged.push(...play.damaged);
  }
  expect(damaged).not.toEqual([]);
});

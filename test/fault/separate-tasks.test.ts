/**
 * A run is rebuilt for a decision after workflow tasks that had nothing to do: its worker was killed (INV-D1, INV-D3, F1;
 * docs/adr/0087). What it does then replays, and the history has no tasks that the SDK takes for one.
 */
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { SIGNALS, TASK_MEMO } from '../../contracts/names.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { MESSAGE_SECRET, type MessageReceiver, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { codeOf, executions, factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests, updateStage } from '../support/world/world.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';

/** Longer than a worker takes to start, on a busy machine. */
const LONG_MS = 120_000;

let bank: RecordingServer;
let receivers: readonly MessageReceiver[];
let world: FaultWorld;
let worker: WorkerProcess;

const stepsOf = (...calls: readonly [tool: string, purpose: string][]) => ({
  provider: 'scripted' as const,
  script: {
    steps: [{ calls: calls.map(([tool, purpose]) => ({ tool, arguments: { purpose } })) }, { text: 'Done.' }],
  },
});

beforeAll(async () => {
  bank = await startRecordingServer();
  receivers = await Promise.all([startMessageReceiver(), startMessageReceiver()]);
  const channels = receivers.map(
    ({ url }, index) => [`hook${index}`, { kind: 'webhook' as const, url, secret: MESSAGE_SECRET }] as const,
  );
  world = await startFaultWorld({
    config: {
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      execution: { stretch: { turns: 0 } },
      notify: { channels: Object.fromEntries(channels) },
      policy: {
        approvers: { ids: ['ann'] },
        unknownOutcomes: 'record',
        servers: { bank: { tools: { slow: 'allow' } } },
        notify: channels.map(([channel]) => ({ channel })),
      },
      models: {
        told: stepsOf(['bank/pay', 'told']),
        signalled: stepsOf(['bank/pay', 'signalled']),
        refused: stepsOf(['bank/pay', 'refused']),
        beside: stepsOf(['bank/slow', 'first'], ['bank/slow', 'second'], ['bank/slow', 'lost'], ['bank/pay', 'beside']),
      },
    },
    client: { deadlineMs: 60_000 },
  });
  worker = await world.startWorker();
}, LONG_MS);
afterAll(async () => {
  await world?.stop();
  await Promise.all([bank, ...receivers].map((server) => server?.close()));
});

/** Waits until so many channels have told of the request, and the run has taken that in. */
async function told(run: RunHandle, count: number): Promise<void> {
  await until(async () => (await run.state()).messages?.sent === count, { what: `${count} messages of ${run.runId}` });
}

/** The decision comes to a worker that has never seen the run. */
async function decideAfterKill(run: RunHandle): Promise<void> {
  const [request] = await openRequests(run);
  await worker.kill();
  worker = await world.startWorker();
  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed' });
}

/** Checks that the run had so many tasks without a command of its own, and replays it. Messages may share a task. */
async function expectSeparate({ runId }: RunHandle, atLeast: number): Promise<void> {
  const [execution] = await executions(world, runId);
  const events = execution?.events ?? [];
  const marked = events.filter(({ markerRecordedEventAttributes: marker }) => marker);
  expect(marked).toHaveLength(1);
  // A completion that the next task follows at once is what the SDK's core may join (`find_end_index_of_next_wft_seq`).
  const followedAtOnce = events.filter(
    ({ workflowTaskCompletedEventAttributes: completed }, index) =>
      completed && events[index + 1]?.workflowTaskScheduledEventAttributes,
  );
  expect(followedAtOnce).toEqual([]);
  const removed = events.filter(({ workflowPropertiesModifiedEventAttributes: memo }) =>
    Object.hasOwn(memo?.upsertedMemo?.fields ?? {}, TASK_MEMO),
  );
  expect(removed.length + 1).toBeGreaterThanOrEqual(atLeast);
  await replayOwn(world, runId);
}

test(
  'after two messages were sent',
  async () => {
    const held: ServerResponse[] = [];
    const [, second] = receivers;
    second?.answer((_request, response) => void held.push(response));
    const run = await world.start('told');
    await openRequests(run);
    await told(run, 1);
    await until(() => held.length > 0, { what: 'a message under way' });
    second?.answer();
    for (const response of held) response.writeHead(204).end();
    await told(run, 2);
    await decideAfterKill(run);
    await expectSeparate(run, 2);
  },
  LONG_MS,
);

test(
  'after signals that were refused',
  async () => {
    const run = await world.start('signalled');
    const [request] = await openRequests(run);
    await told(run, 2);
    const handle = world.client.workflow.getHandle(run.runId);
    for (const count of [1, 2, 3]) {
      await handle.signal(SIGNALS.decide, decisionOn(request, 'mallory'));
      await until(async () => factsOf(await run.ledger(), 'decision.refused').length === count, {
        what: `${count} refused signals`,
      });
    }
    await decideAfterKill(run);
    await expectSeparate(run, 4);
  },
  LONG_MS,
);

test(
  'after calls that returned while another one was under way',
  async () => {
    const run = await world.start('beside');
    await openRequests(run);
    await told(run, 2);
    for (const purpose of ['first', 'second']) {
      await bank.held(purpose);
      bank.release(purpose);
      await until(async () => factsOf(await run.ledger(), 'outcome').length >= (purpose === 'first' ? 1 : 2), {
        what: `the outcome of ${purpose}`,
      });
    }
    await decideAfterKill(run);
    await expectSeparate(run, 3);
  },
  LONG_MS,
);

test(
  'after a signal and an update that were refused in one task, and an update alone',
  async () => {
    const run = await world.start('refused');
    const [request] = await openRequests(run);
    await told(run, 2);
    await worker.kill();
    await world.client.workflow.getHandle(run.runId).signal(SIGNALS.decide, decisionOn(request, 'mallory'));
    const wrong = decisionOn(request, 'mallory');
    const refused = codeOf(run.decide(wrong));
    await until(
      async () =>
        (await updateStage(world.client, run.runId, updateIdOf('decide', wrong, wrong.decisionId))) === 'admitted',
      {
        what: 'the update at Temporal',
      },
    );
    worker = await world.startWorker();
    expect(await refused).toBe('APPROVER_NOT_ENTITLED');
    const before = await traceOf(world, run.runId);
    expect(await codeOf(run.decide(decisionOn(request, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
    expect(await traceOf(world, run.runId)).toEqual(before);
    await decideAfterKill(run);
    await expectSeparate(run, 2);
  },
  LONG_MS,
);

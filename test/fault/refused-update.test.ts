/**
 * Temporal suggests another execution for the first time in a task whose update is refused. No replay evaluates
 * conditions there, so the run does not begin to hand over; the first task after a reset is one where a replay does
 * (INV-D1, INV-D3; docs/adr/0088).
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { ACTIVITIES, SIGNALS } from '../../contracts/names.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { startFaultEngine, startFaultWorld } from '../support/faults/world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { resetRun, WITHOUT_UPDATES } from '../support/world/reset.ts';
import { codeOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests, updateStage } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than a worker takes to start, on a busy machine. */
jest.setTimeout(120_000);

/** Events after which Temporal suggests another execution: more than the run has when it begins to wait. */
const SUGGESTED_AT = 80;
/** Events of a task up to its start, and up to its end. */
const [STARTING, COMPLETED] = [2, 3];
/**
 * Events of the task that refuses the signals: it is scheduled for the killed worker in vain, then completes for
 * another one, and leaves a marker and its search attribute.
 */
const REFUSING = 2 + COMPLETED + 2;

let worker: WorkerProcess;

const bank = during(() => startRecordingServer());
const engine = during(() => startFaultEngine([`limit.historyCount.suggestContinueAsNew=${SUGGESTED_AT}`]));
const steps = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'once' } }] }, { text: 'Done.' }];
const world = during(() =>
  startFaultWorld({
    engine,
    config: {
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['ann'] } },
      models: { clerk: { provider: 'scripted', script: { steps } } },
    },
  }),
);
beforeAll(async () => {
  worker = await world.startWorker();
});

/** Starts a run that waits, and has one task read so many signals that the history has that many events. */
async function waitingWith(length: number): Promise<readonly [RunHandle, ApprovalRequest]> {
  const run = await world.start('clerk');
  const [request] = await openRequests(run);
  const handle = world.client.workflow.getHandle(run.runId);
  await worker.kill();
  const signals = length - REFUSING - (await handle.describe()).historyLength;
  for (let sent = 0; sent < signals; sent += 1) await handle.signal(SIGNALS.decide, decisionOn(request, 'mallory'));
  const events = async () => (await handle.fetchHistory()).events ?? [];
  await until(async () => (await events()).some(({ workflowTaskTimedOutEventAttributes: task }) => task), {
    what: 'the end of the task that waits for the killed worker',
  });
  worker = await world.startWorker();
  await until(async () => (await handle.describe()).historyLength >= length, { what: 'the task of the signals' });
  expect((await handle.describe()).historyLength).toBe(length);
  return [run, request];
}

/** Positions of the started tasks in which Temporal suggests another execution. */
async function suggestedIn(workflowId: string, execution: string): Promise<readonly number[]> {
  const { events } = await world.client.workflow.getHandle(workflowId, execution).fetchHistory();
  return (events ?? [])
    .filter(({ workflowTaskStartedEventAttributes: task }) => task?.suggestContinueAsNew)
    .map(({ eventId }) => Number(eventId));
}

test('a refused update does not make a run hand over', async () => {
  const [run, request] = await waitingWith(SUGGESTED_AT);
  const { runId: execution } = await world.client.workflow.getHandle(run.runId).describe();
  const before = await traceOf(world, run.runId);
  expect(await codeOf(run.decide(decisionOn(request, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
  expect(await traceOf(world, run.runId)).toEqual(before);

  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed' });
  // The first suggestion on record is that of the decision: its task started where the one of the refused update did.
  const [first] = await suggestedIn(run.runId, execution);
  expect(first).toBe(before.historyLength + STARTING);
  await replayOwn(world, run.runId);
});

test('a run that was reset hands over as its replay does, though its first task refuses an update', async () => {
  // The task of the message starts just below the bound. It is undone, and the task that takes its place starts above.
  const [run, request] = await waitingWith(SUGGESTED_AT - COMPLETED);
  await run.say({ messageId: 'undone', text: 'This will be undone.', from: 'ann' });
  await worker.kill();
  const execution = await resetRun(world.client, { workflowId: run.runId }, 'last', [WITHOUT_UPDATES]);
  const wrong = decisionOn(request, 'mallory');
  const refused = codeOf(run.decide(wrong));
  await until(
    async () =>
      (await updateStage(world.client, run.runId, updateIdOf('decide', wrong, wrong.decisionId))) === 'admitted',
    { what: 'the update at Temporal' },
  );
  worker = await world.startWorker();
  expect(await refused).toBe('APPROVER_NOT_ENTITLED');
  // No query comes in between, which could have the run rebuilt.
  await run.say({ messageId: 'next', text: 'Be quick.', from: 'ann' });

  const [now] = await openRequests(run);
  await run.decide(decisionOn(now, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed' });
  const { events } = await world.client.workflow.getHandle(run.runId, execution).fetchHistory();
  const failed = (events ?? []).findIndex(({ workflowTaskFailedEventAttributes: task }) => task);
  expect((await suggestedIn(run.runId, execution))[0]).toBe(failed + 1 + STARTING);
  // That very task begins to hand over.
  const [, , , , scheduled] = (events ?? []).slice(failed);
  expect(scheduled?.activityTaskScheduledEventAttributes?.activityType?.name).toBe(ACTIVITIES.storeSegment);
  expect(events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes).toBeDefined();
  await replayOwn(world, run.runId);
});

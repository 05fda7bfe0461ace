/**
 * A run is rebuilt for a decision after workflow tasks that had nothing to do: its worker was killed (INV-D1, INV-D3,
 * F1; docs/adr/0087). What it does then replays, and the history has no tasks that the SDK takes for one.
 */
import { writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { SIGNALS, TASK_MEMO } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { bundleWorkflows, type MadeBundle, workflowFile } from '../../workers/bundle.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { MESSAGE_SECRET, type MessageReceiver, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { until } from '../support/until.ts';
import { codeOf, factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests, updateStage } from '../support/world/world.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';

/** Longer than a worker takes to start, on a busy machine. */
jest.setTimeout(120_000);

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

const configOf = (): ConfigInput => {
  const channels = receivers.map(
    ({ url }, index) => [`hook${index}`, { kind: 'webhook' as const, url, secret: MESSAGE_SECRET }] as const,
  );
  return {
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
  };
};

beforeAll(async () => {
  bank = await startRecordingServer();
  receivers = await Promise.all([startMessageReceiver(), startMessageReceiver()]);
  world = await startFaultWorld({ config: configOf() });
  worker = await world.startWorker();
});
afterAll(async () => {
  await world?.stop();
  await Promise.all([bank, ...receivers].map((server) => server?.close()));
});

/** Starts a run whose two messages are sent one after the other, and waits until it has taken that in. */
async function begin(model: string, { start } = world): Promise<readonly [RunHandle, ApprovalRequest]> {
  const held: ServerResponse[] = [];
  const [, second] = receivers;
  second?.answer((_request, response) => void held.push(response));
  const run = await start(model);
  const [request] = await openRequests(run);
  const told = async (count: number): Promise<unknown> =>
    await until(async () => (await run.state()).messages?.sent === count, { what: `${count} messages of ${model}` });
  await told(1);
  await until(() => held.length > 0, { what: 'a message under way' });
  second?.answer();
  for (const response of held) response.writeHead(204).end();
  await told(2);
  return [run, request];
}

/** The decision comes to a worker that has never seen the run. */
async function decideAfterKill(run: RunHandle, request: ApprovalRequest): Promise<void> {
  await worker.kill();
  worker = await world.startWorker();
  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed' });
}

async function eventsOf({ client }: FaultWorld, { runId }: RunHandle) {
  return (await client.workflow.getHandle(runId).fetchHistory()).events ?? [];
}
type Events = Awaited<ReturnType<typeof eventsOf>>;

const markersIn = (events: Events) => events.filter(({ markerRecordedEventAttributes: marker }) => marker);
const removalsIn = (events: Events) =>
  events.filter(({ workflowPropertiesModifiedEventAttributes: memo }) =>
    Object.hasOwn(memo?.upsertedMemo?.fields ?? {}, TASK_MEMO),
  );
/** Completions that the next task follows at once: the SDK's core may join them (`find_end_index_of_next_wft_seq`). */
const emptyIn = (events: Events) =>
  events.filter(
    ({ workflowTaskCompletedEventAttributes: completed }, index) =>
      completed && events[index + 1]?.workflowTaskScheduledEventAttributes,
  );

async function refusedSignals(run: RunHandle, request: ApprovalRequest): Promise<void> {
  const handle = world.client.workflow.getHandle(run.runId);
  for (const count of [1, 2, 3]) {
    await handle.signal(SIGNALS.decide, decisionOn(request, 'mallory'));
    await until(async () => factsOf(await run.ledger(), 'decision.refused').length === count, {
      what: `${count} refused signals`,
    });
  }
}

async function returnedCalls(run: RunHandle): Promise<void> {
  for (const [index, purpose] of ['first', 'second'].entries()) {
    await bank.held(purpose);
    bank.release(purpose);
    await until(async () => factsOf(await run.ledger(), 'outcome').length > index, { what: `outcome of ${purpose}` });
  }
}

/** A signal and an update that one task refuses, then an update alone, which leaves nothing. */
async function refusedTogether(run: RunHandle, request: ApprovalRequest): Promise<void> {
  await worker.kill();
  await world.client.workflow.getHandle(run.runId).signal(SIGNALS.decide, decisionOn(request, 'mallory'));
  const wrong = decisionOn(request, 'mallory');
  const refused = codeOf(run.decide(wrong));
  const updateId = updateIdOf('decide', wrong, wrong.decisionId);
  await until(async () => (await updateStage(world.client, run.runId, updateId)) === 'admitted', {
    what: 'the update at Temporal',
  });
  worker = await world.startWorker();
  expect(await refused).toBe('APPROVER_NOT_ENTITLED');
  const before = await traceOf(world, run.runId);
  expect(await codeOf(run.decide(decisionOn(request, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
  expect(await traceOf(world, run.runId)).toEqual(before);
}

test.each<[string, string, (run: RunHandle, request: ApprovalRequest) => Promise<void>, number]>([
  ['two messages were sent', 'told', async () => undefined, 1],
  ['signals were refused', 'signalled', refusedSignals, 4],
  ['calls returned while another one was under way', 'beside', returnedCalls, 3],
  ['a signal and an update were refused in one task, and an update alone', 'refused', refusedTogether, 2],
])('a decision after %s', async (_name, model, before, removals) => {
  const [run, request] = await begin(model);
  await before(run, request);
  await decideAfterKill(run, request);
  const events = await eventsOf(world, run);
  expect(markersIn(events)).toHaveLength(1);
  expect(removalsIn(events).length).toBeGreaterThanOrEqual(removals);
  expect(emptyIn(events)).toEqual([]);
  await replayOwn(world, run.runId);
});

test('a run of a build that left nothing is joined for its decision, and replays as it was joined', async () => {
  const bundle = await sharedBundle(bundleThatLeavesNothing);
  const older = await startFaultWorld({ config: configOf(), bundle });
  try {
    const before = await older.startWorker();
    const [run, request] = await begin('told', older);
    expect(markersIn(await eventsOf(older, run))).toEqual([]);
    await before.kill();
    await writeFile(join(older.engine.directory, 'bundle.json'), JSON.stringify(world.bundle));
    await older.startWorker();
    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    const events = await eventsOf(older, run);
    expect(emptyIn(events)).toHaveLength(1);
    expect(markersIn(events)).toHaveLength(1);
    await replayOwn({ ...older, bundle: world.bundle }, run.runId);
  } finally {
    await older.stop();
  }
});

/** The workflows as they were before tasks were separated. */
async function bundleThatLeavesNothing(): Promise<MadeBundle> {
  return await bundleWorkflows(undefined, [], (name) =>
    name === 'interceptors/separate-tasks'
      ? join(import.meta.dirname, '../support/faults/no-interceptors.ts')
      : workflowFile(name),
  );
}

/**
 * Long scenes of `continuity.test.ts`: many turns and executions, queries at the worst moment, and a worker that keeps
 * nothing (INV-D1, INV-D2, INV-D3).
 */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import {
  type Execution,
  executions,
  expectModelSawAll,
  factsOf,
  outcomes,
  transcript,
} from '../support/world/run-record.ts';
import { decideNext, decisionOn, openRequests, useEngine, useWorld } from '../support/world/world.ts';

const LOOKUPS = { servers: { bank: { tools: { lookup: 'allow' } } } } as const;
const engine = useEngine();
const { bank, world } = useBank({ policy: LOOKUPS }, { engine });
/** Keeps no run in memory: every workflow task replays the whole history. */
const forgetful = useWorld(() => ({
  engine,
  bundle: world.bundle,
  // A worker that lets go of a run after each task loses tasks and queries (docs/adr/0063, 0067).
  client: { deadlineMs: 60_000 },
  config: { policy: LOOKUPS, servers: world.config.servers, taskQueue: 'forgetful', worker: { maxCachedWorkflows: 0 } },
}));
/** Each step and each call of its runs is an activity of its own: its histories show the turns one by one. */
const stepping = useWorld(() => ({
  engine,
  bundle: world.bundle,
  config: {
    policy: LOOKUPS,
    servers: world.config.servers,
    taskQueue: 'stepping',
    execution: { stretch: { turns: 0 } },
  },
}));

const call = (tool: string, purpose: string, n: number | string = 1) => ({
  tool: `bank/${tool}`,
  arguments: { purpose, n },
});
const END = { text: 'done' };

async function stepsUnderWay(handle: WorkflowHandle): Promise<readonly string[]> {
  const { raw } = await handle.describe();
  return (raw.pendingActivities ?? []).flatMap(({ activityType }) => activityType?.name ?? []);
}

async function nudge(run: RunHandle): Promise<void> {
  await world.client.workflow.getHandle(run.runId).signal('nudge');
}

/** What an event holds, roughly as it is stored. */
function sizeOf(value: unknown): number {
  if (value instanceof Uint8Array || typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 2;
  return Object.values(value).reduce<number>((sum, inner) => sum + 2 + sizeOf(inner), 0);
}

/** Of the turns alone: from the first model step on, without start and continue-as-new. */
function bytesPerTurn({ events }: Execution): number {
  const isModelStep = ({ activityTaskScheduledEventAttributes: scheduled }: Execution['events'][number]) =>
    scheduled?.activityType?.name === 'modelStep';
  const steps = events.filter(isModelStep).length - 1;
  return (
    events
      .slice(events.findIndex(isModelStep), events.findLastIndex(isModelStep))
      .reduce((sum, event) => sum + sizeOf(event), 0) / steps
  );
}

test('a run of 120 turns, with decisions and messages arriving at any moment, is whole across its executions', async () => {
  const turns = 120;
  const cycle = [
    { calls: [call('lookup', 'long', '{{turn}}')], repeat: 2 },
    { calls: [call('lookup', 'long', '{{turn}}'), call('pay', 'long', '{{turn}}')] },
  ];
  const run = await world.start([...Array.from({ length: turns / 3 }, () => cycle).flat(), END], {
    limits: { turns: 200 },
  });
  let messagesSaid = 0;
  let decided = 0;
  for await (const { fact } of run.watch()) {
    if (fact.kind !== 'request.opened') continue;
    const request = (await run.requests()).find(({ callId }) => callId === fact.callId);
    if (request === undefined) throw new Error('a request that was opened is gone');
    const turn = (decided += 1) * 3;
    // In some turns the run continues as new while the request waits, in others while a decision or a message is under
    // way.
    if (turn === 21) {
      await nudge(run);
      await until(async () => (await run.state()).runId !== request.runId, {
        what: 'the next execution',
      });
    }
    const messages =
      turn % 12 === 0 ? [run.say({ messageId: `m${turn}`, text: `This is turn ${turn}.`, from: 'ann' })] : [];
    messagesSaid += messages.length;
    const nudges = turn % 30 === 0 ? [nudge(run)] : [];
    // The last decision lets the run end, and what comes after its end is refused.
    if (turn === turns) await Promise.all([...messages, ...nudges]);
    // As it was shown, also where the run has continued meanwhile.
    await Promise.all([run.decide(decisionOn(request, 'ann')), ...messages, ...nudges]);
  }
  expect(await run.result()).toMatchObject({ status: 'completed', turns: turns + 1, calls: turns + turns / 3 });

  const numbers = Array.from({ length: turns }, (_, index) => `${index + 1}`);
  const executed = (tool: string) => bank.callsFor('long', tool).map(({ arguments: args }) => args['n']);
  expect(executed('lookup')).toEqual(numbers);
  expect(executed('pay')).toEqual(numbers.filter((number) => Number(number) % 3 === 0));
  expect(Object.values(await outcomes(run)).filter((outcome) => outcome !== 'succeeded')).toEqual([]);

  const ledger = await run.ledger();
  expect(assertIntact(ledger, run.runId).length).toBe(ledger.length);
  expect(factsOf(ledger, 'decision.accepted')).toHaveLength(turns / 3);
  expect(factsOf(ledger, 'said')).toHaveLength(messagesSaid);
  const messages = await transcript(world, run);
  expect(messages.filter(({ role }) => role === 'user')).toHaveLength(1 + messagesSaid);
  await expectModelSawAll(world, run);

  const chain = await executions(world, run.runId);
  expect(chain.length).toBeGreaterThanOrEqual(4);
  expect(factsOf(ledger, 'run.rolled')).toHaveLength(chain.length - 1);
}, 120_000);

test('the turns of the last execution are no larger than those of the first (INV-D2)', async () => {
  const run = await stepping.start([{ calls: [call('lookup', 'flat', '{{turn}}')], repeat: 60 }, END], {
    limits: { turnsPerExecution: 20 },
  });
  await run.result();
  const chain = await executions(stepping, run.runId);
  expect(chain).toHaveLength(4);
  const [first = 0, , last = 0] = chain.map(bytesPerTurn);
  expect(Math.abs(last / first - 1)).toBeLessThan(0.1);
  await expectModelSawAll(stepping, run);
});

test('queries and messages from the first moment on leave a history that replays, and a ledger that reads the same afterwards', async () => {
  // A query that met a local activity once made histories that no worker could replay.
  const early = async (index: number) => {
    const run = await world.start([
      { calls: [call('lookup', 'early', index)] },
      { calls: [call('pay', 'early', index)] },
      END,
    ]);
    const asked = Promise.all([run.state(), run.ledger(), run.requests(), run.advance()]);
    await run.say({ messageId: 'm1', text: 'Quickly, please.', from: 'ann' });
    await Promise.all([asked, run.state(), run.say({ messageId: 'm2', text: 'Please.', from: 'ann' })]);
    await openRequests(run);
    return { run, ledger: await run.ledger() };
  };
  // Four at a time: a slow machine answers their queries within the deadline.
  const runs = [];
  for (const first of [0, 4, 8]) runs.push(...(await Promise.all([0, 1, 2, 3].map((n) => early(first + n)))));
  await world.restartWorkers();
  for (const { run, ledger } of runs) {
    expect(await run.ledger()).toEqual(ledger);
    await decideNext(run, 'ann');
  }
  await Promise.all(runs.map(async ({ run }) => await run.result()));
  expect(bank.callsFor('early', 'pay')).toHaveLength(12);
  expect(bank.callsFor('early', 'lookup')).toHaveLength(12);
});

test('what no input can hold is not handed over: the run goes on, and hands over at the end of the turn (INV-D3)', async () => {
  const calls = Array.from({ length: 64 }, (_, n) => call('pay', 'heavy', n));
  const run = await stepping.start([{ calls }, END], { limits: { callsPerTurn: 64, resultBytes: 4_000 } });
  const [last, ...others] = await openRequests(run, 64);
  const handle = stepping.client.workflow.getHandle(run.runId);
  const store = join(stepping.engine.directory, stepping.config.artifacts.directory);
  await rename(store, `${store}.away`);
  await writeFile(store, 'a file, and no folder');
  try {
    await handle.signal('nudge');
    await until(async () => (await stepsUnderWay(handle)).includes('storeSegment'), { what: 'the store to be asked' });
    // Six bytes of JSON for each character: 3 MB in all.
    const said = { kind: 'reject', reason: '\u0001'.repeat(4_096) } as const;
    for (const request of others) await run.decide({ ...decisionOn(request, 'ann', 'reject'), ...said });
  } finally {
    await rm(store);
    await rename(`${store}.away`, store);
  }
  await run.decide(decisionOn(last, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  expect(await executions(stepping, run.runId)).toHaveLength(2);
  const ledger = await run.ledger();
  assertIntact(ledger, run.runId);
  expect(factsOf(ledger, 'decision.accepted')).toHaveLength(64);
}, 300_000);

describe('a worker that keeps no run in memory', () => {
  /** Waits by visibility, which wakes no worker: this one loses tasks while somebody reads its runs (docs/adr/0067). */
  const waitsFor = async (run: RunHandle, callIds: readonly string[]): Promise<void> => {
    const calls = async (): Promise<readonly string[]> =>
      (await forgetful.countersign.waiting())
        .filter(({ runId }) => runId === run.runId)
        .flatMap(({ pending }) => pending.requests.map(({ callId }) => callId));
    await until(async () => isDeepStrictEqual(await calls(), callIds), {
      what: `requests for ${callIds.join(', ')}`,
      // A workflow task that got lost is handed out again after 10 s, an activity after a minute.
      withinMs: 120_000,
    });
  };

  test('takes a run through parallel calls, decisions in reverse, a reject, messages and continue-as-new', async () => {
    const run = await forgetful.start([
      { calls: [1, 2, 3].map((n) => call('pay', 'forgetful', n)) },
      { calls: [call('lookup', 'forgetful', 4)] },
      END,
    ]);
    await waitsFor(run, ['t1.c0', 't1.c1', 't1.c2']);
    const [one, two, three] = await openRequests(run, 3);
    await run.decide(decisionOn(three, 'ann'));
    await run.say({ messageId: 'm1', text: 'Mind the budget.', from: 'ann' });
    await run.decide(decisionOn(two, 'ann', 'reject'));
    await forgetful.client.workflow.getHandle(run.runId).signal('nudge');
    const handle = forgetful.client.workflow.getHandle(run.runId);
    await until(async () => (await handle.describe()).runId !== one.runId, {
      what: 'the next execution',
      withinMs: 120_000,
      instead: async () =>
        (await executions(forgetful, run.runId)).map(({ events }) =>
          events.map(({ eventType, eventTime }) => `${String(eventTime?.seconds)} ${String(eventType)}`),
        ),
    });
    await run.decide(decisionOn(one, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(await outcomes(run)).toEqual({
      't1.c0': 'succeeded',
      't1.c1': 'rejected',
      't1.c2': 'succeeded',
      't2.c0': 'succeeded',
    });
    expect(bank.callsFor('forgetful').map(({ arguments: args }) => args['n'])).toEqual([3, 1, 4]);
    assertIntact(await run.ledger(), run.runId);
    const shown = factsOf(await run.ledger(), 'turn.proposed').map(({ usage }) => usage.inputTokens);
    expect(shown).toEqual(
      (await transcript(forgetful, run)).flatMap(({ role }, index) => (role === 'assistant' ? [index] : [])),
    );
    expect(await executions(forgetful, run.runId)).toHaveLength(2);
  }, 180_000);

  test('lets a request expire, and ends a run that is stopped', async () => {
    const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } } as const;
    const run = await forgetful.start(
      [{ calls: [call('pay', 'forgotten')] }, { calls: [call('fail', 'forgotten')] }, END],
      { policy },
    );
    await waitsFor(run, ['t2.c0']);
    await run.stop({ by: 'ann', reason: 'enough' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'expired', 't2.c0': 'cancelled' });
    expect(bank.callsFor('forgotten')).toEqual([]);
  }, 180_000);
});

/** A run that continues as new loses nothing: no call, decision, message, ledger entry or word of the conversation (INV-D2, INV-D3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { type Execution, executions, factsOf, ledgerShows, outcomes, transcript } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const policy = { servers: { bank: { tools: { lookup: 'allow' } } } } as const;
  world = await startWorld({ config: { policy, servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const call = (tool: string, purpose: string, n: number | string = 1) => ({
  tool: `bank/${tool}`,
  arguments: { purpose, n },
});
const END = { text: 'done' };

async function nudge(run: RunHandle): Promise<void> {
  await world.client.workflow.getHandle(run.runId).signal('nudge');
}

/** The scripted model reports how many messages it was shown: in every turn, all that the transcript held before its answer. */
async function expectModelSawAll(run: RunHandle): Promise<void> {
  const messages = await transcript(world, run);
  const before = messages.flatMap(({ role }, index) => (role === 'assistant' ? [index] : []));
  const shown = factsOf(await run.ledger(), 'turn.proposed').map(({ usage }) => usage.inputTokens);
  expect(shown).toEqual(before);
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
  let said = 0;
  let decided = 0;
  for await (const { fact } of run.watch()) {
    if (fact.kind !== 'request.opened') continue;
    const request = (await run.requests()).find(({ callId }) => callId === fact.callId);
    if (request === undefined) throw new Error('a request that was opened is gone');
    const turn = (decided += 1) * 3;
    // In some turns the run continues as new while the request waits, in others while a decision or a message is under way.
    if (turn === 21) {
      await nudge(run);
      await until(async () => ((await run.state()).runId === request.runId ? undefined : true), {
        what: 'the next execution',
      });
    }
    const messages =
      turn % 12 === 0 ? [run.say({ messageId: `m${turn}`, text: `This is turn ${turn}.`, from: 'ann' })] : [];
    said += messages.length;
    const nudges = turn % 30 === 0 ? [nudge(run)] : [];
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
  expect(factsOf(ledger, 'said')).toHaveLength(said);
  const messages = await transcript(world, run);
  expect(messages.filter(({ role }) => role === 'user')).toHaveLength(1 + said);
  await expectModelSawAll(run);

  const chain = await executions(world, run.runId);
  expect(chain.length).toBeGreaterThanOrEqual(4);
  expect(factsOf(ledger, 'run.rolled')).toHaveLength(chain.length - 1);
}, 120_000);

test('the turns of the last execution are no larger than those of the first (INV-D2)', async () => {
  const run = await world.start([{ calls: [call('lookup', 'flat', '{{turn}}')], repeat: 60 }, END], {
    limits: { turnsPerExecution: 20 },
  });
  await run.result();
  const chain = await executions(world, run.runId);
  expect(chain).toHaveLength(4);
  const [first = 0, , last = 0] = chain.map(bytesPerTurn);
  expect(Math.abs(last / first - 1)).toBeLessThan(0.1);
  await expectModelSawAll(run);
});

test('a decision and a nudge in one workflow task: the call is sent once, and its result is not lost', async () => {
  const run = await world.start([{ calls: [call('pay', 'race', 1), call('pay', 'race', 2)] }, END]);
  const [first, second] = await openRequests(run, 2);
  if (first === undefined || second === undefined) throw new Error('two requests');
  const handle = world.client.workflow.getHandle(run.runId);
  await world.workers.stop();
  // Both are there when the worker comes: the run wants to continue in the very task in which a call may leave.
  await handle.signal('nudge');
  await handle.signal('decide', decisionOn(first, 'ann'));
  await world.restartWorkers();
  await ledgerShows(run, 'outcome', first.callId);
  await until(async () => ((await run.state()).runId === first.runId ? undefined : true), {
    what: 'the next execution',
  });
  await world.workers.stop();
  await handle.signal('decide', decisionOn(second, 'ann'));
  await handle.signal('nudge');
  await world.restartWorkers();
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
  expect(bank.callsFor('race').map(({ arguments: args }) => args['n'])).toEqual([1, 2]);
  expect(factsOf(await run.ledger(), 'dispatched')).toHaveLength(2);
  assertIntact(await run.ledger(), run.runId);
});

test('everything that arrives while the run hands over is there in the next execution (F35)', async () => {
  const run = await world.start([{ calls: [1, 2, 3, 4, 5].map((n) => call('pay', 'handover', n)) }, END]);
  const requests = [...(await openRequests(run, 5))];
  const last = requests.pop();
  if (last === undefined) throw new Error('five requests');
  const messages = Array.from({ length: 12 }, (_, n) => ({ messageId: `m${n}`, text: `Message ${n}.`, from: 'ann' }));
  for (const [n, request] of requests.entries()) {
    const sent = [
      nudge(run),
      ...messages.slice(3 * n, 3 * n + 3).map((message) => run.say(message)),
      run.decide(decisionOn(request, 'ann')),
      nudge(run),
    ];
    await Promise.all(sent);
  }
  // Only now may the run end: a message that comes after the end is refused.
  await run.decide(decisionOn(last, 'ann'));
  await run.result();
  expect(
    bank
      .callsFor('handover')
      .map(({ arguments: args }) => Number(args['n']))
      .toSorted((one, other) => one - other),
  ).toEqual([1, 2, 3, 4, 5]);
  const users = (await transcript(world, run)).flatMap((message) => (message.role === 'user' ? [message.text] : []));
  expect(users.toSorted()).toEqual(['Do it.', ...messages.map(({ text }) => text)].toSorted());
  expect((await executions(world, run.runId)).length).toBeGreaterThan(1);
  assertIntact(await run.ledger(), run.runId);
  await expectModelSawAll(run);
});

test('a request keeps its deadline across executions, and expires in a later one', async () => {
  const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 10 } } } } } as const;
  const run = await world.start([{ calls: [call('pay', 'deadline')] }, END], { policy });
  const [shown] = await openRequests(run);
  await nudge(run);
  const again = await until(async () => {
    const request = await requestFor(run, 't1.c0');
    return request.runId === shown?.runId ? undefined : request;
  });
  expect(again).toMatchObject({ deadline: shown?.deadline, openedAt: shown?.openedAt, generation: 1 });
  await ledgerShows(run, 'outcome', 't1.c0');
  expect(await outcomes(run)).toEqual({ 't1.c0': 'expired' });
  await run.result();
  const ledger = await run.ledger();
  const [rolled, closed] = (['run.rolled', 'request.closed'] as const).map((kind) =>
    ledger.find(({ fact }) => fact.kind === kind),
  );
  expect(rolled?.seq).toBeLessThan(closed?.seq ?? 0);
  expect(Date.parse(closed?.at ?? '')).toBeGreaterThanOrEqual(Date.parse(again.deadline));
});

/**
 * A run is what its history says: one that continues as new loses nothing, no call, decision, message, ledger entry or
 * word of the conversation; workers come and go, caches are lost, clients ask at the worst moment (INV-D1, INV-D2,
 * INV-D3).
 */
import { describe, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { startModelProvider } from '../support/models/provider.ts';
import {
  executions,
  expectModelSawAll,
  factsOf,
  ledgerShows,
  outcomes,
  outcomesAtEnd,
  results,
  transcript,
} from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decisionOn, openRequests, requestAfter } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const provider = during(() => startModelProvider('chat-completions'));
const { bank, world } = useBank(() => {
  const config = {
    policy: { servers: { bank: { tools: { lookup: 'allow', slow: 'allow' } } } },
    models: {
      slow: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
    },
  } as const;
  return config;
});

const call = (tool: string, purpose: string, n: number | string = 1) => ({
  tool: `bank/${tool}`,
  arguments: { purpose, n },
});
const END = { text: 'done' };

async function nudge(run: RunHandle): Promise<void> {
  await world.client.workflow.getHandle(run.runId).signal('nudge');
}

test('a decision and a nudge in one workflow task: the call is sent once, and its result is not lost', async () => {
  const run = await world.start([{ calls: [call('pay', 'race', 1), call('pay', 'race', 2)] }, END]);
  const [first, second] = await openRequests(run, 2);
  const handle = world.client.workflow.getHandle(run.runId);
  await world.workers.stop();
  // Both are there when the worker comes: the run wants to continue in the very task in which a call may leave.
  await handle.signal('nudge');
  await handle.signal('decide', decisionOn(first, 'ann'));
  await world.restartWorkers();
  await ledgerShows(run, 'outcome', first.callId);
  await requestAfter(run, first);
  await world.workers.stop();
  await handle.signal('decide', decisionOn(second, 'ann'));
  await handle.signal('nudge');
  await world.restartWorkers();
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
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
  await expectModelSawAll(world, run);
});

test('a request keeps its deadline across executions, and expires in a later one', async () => {
  const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 10 } } } } } as const;
  const run = await world.start([{ calls: [call('pay', 'deadline')] }, END], { policy });
  const [shown] = await openRequests(run);
  await nudge(run);
  const again = await requestAfter(run, shown);
  expect(again).toMatchObject({ deadline: shown.deadline, openedAt: shown.openedAt, generation: 1 });
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

describe('a worker that is restarted', () => {
  test('while a request waits: the decision works, on the digest that was shown before', async () => {
    const run = await world.start([{ calls: [call('pay', 'waiting'), call('lookup', 'waiting')] }, END]);
    const [request] = await openRequests(run);
    await ledgerShows(run, 'outcome', 't1.c1');
    await world.restartWorkers();
    expect(await openRequests(run)).toEqual([request]);
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    expect(bank.callsFor('waiting')).toHaveLength(2);
  });

  test('while the model thinks: the step is taken again, and the run goes on', async () => {
    provider.enqueue(
      { status: 200, chunks: [': thinking\n\n'], ending: 'hang' },
      answered(chatDialect.events(said([{ type: 'text', text: 'Here I am.' }]))),
    );
    const run = await world.start([END], { agent: { name: 'clerk', model: 'slow' } });
    await provider.hanging();
    await world.restartWorkers();
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Here I am.' });
  });

  test('while a call is under way: somebody is asked what it did, and it is not sent again by itself (INV-X1)', async () => {
    const run = await world.start([{ calls: [call('slow', 'flight')] }, END]);
    await bank.held('flight');
    await world.restartWorkers();
    const request = await lostCall(run);
    // Of the next worker, too.
    await world.restartWorkers();
    expect(await openRequests(run)).toEqual([request]);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'failed', message: 'It is not there.' }));
    await run.result();
    bank.release('flight');
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'failed', recordedBy: 'ann' });
    expect(bank.callsFor('flight')).toHaveLength(1);
  });

  test('while a call is under way, where policy records it: what it did is unknown at once (INV-X1)', async () => {
    const policy = { unknownOutcomes: 'record' } as const;
    const run = await world.start([{ calls: [call('slow', 'recorded')] }, END], { policy });
    await bank.held('recorded');
    await world.restartWorkers();
    await run.result();
    bank.release('recorded');
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'unknown' });
    expect(bank.callsFor('recorded')).toHaveLength(1);
  });
});

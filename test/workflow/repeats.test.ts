/** What was refused is not asked again before the user speaks; equal calls of one turn are told apart (B-14, INV-G3, INV-X2). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { PENDING_MEMO } from '../../contracts/names.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { factsOf, ledgerShows, outcomes, transcript } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const tools = { lookup: 'deny', pay: 'ask' } as const;
  world = await startWorld({
    config: {
      policy: { servers: { bank: { tools } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const pay = (purpose: string, amount = 1) => ({ tool: 'bank/pay', arguments: { purpose, amount } });
const END = { text: 'done' };

async function reject(run: RunHandle, callId: string): Promise<void> {
  await run.decide({
    ...decisionOn(await requestFor(run, callId), 'ann', 'reject'),
    kind: 'reject',
    reason: 'no need',
  });
}

test('a rejected call is answered from the ledger, also after continue-as-new, until the user speaks (B-14, INV-D3)', async () => {
  const heard = { call: 0, outcome: 'rejected', textIncludes: 'as t1.c0' } as const;
  const run = await world.start([
    { calls: [pay('again', 1)] },
    { calls: [pay('again', 1), pay('again', 2)] },
    { calls: [], text: 'lost', branches: [{ when: heard, then: { calls: [pay('again', 1)] } }] },
    { calls: [pay('again', 3)] },
    { calls: [pay('again', 1)] },
    END,
  ]);
  await reject(run, 't1.c0');
  const sibling = await requestFor(run, 't2.c1');
  expect((await run.requests()).map(({ callId }) => callId)).toEqual(['t2.c1']);
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await run.state()).runId === sibling.runId ? undefined : true));
  const [still] = await openRequests(run);
  if (still === undefined) throw new Error('no request');
  await run.decide(decisionOn(still, 'ann'));
  // What was carried answers the third turn too.
  const third = await requestFor(run, 't4.c0');
  expect(await outcomes(run)).toEqual({
    't1.c0': 'rejected',
    't2.c0': 'rejected',
    't2.c1': 'succeeded',
    't3.c0': 'rejected',
  });
  expect(factsOf(await run.ledger(), 'outcome').map(({ repeatOf }) => repeatOf)).toEqual([
    undefined,
    't1.c0',
    undefined,
    't1.c0',
  ]);
  expect(factsOf(await run.ledger(), 'request.opened').map(({ callId }) => callId)).toEqual([
    't1.c0',
    't2.c1',
    't4.c0',
  ]);
  await run.say({ messageId: 'm1', text: 'Pay it after all.', from: 'ann' });
  await run.decide(decisionOn(third, 'ann'));
  const last = await requestFor(run, 't5.c0');
  await run.decide(decisionOn(last, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  expect(bank.callsFor('again').map(({ arguments: args }) => args['amount'])).toEqual([2, 3, 1]);
  const results = (await transcript(world, run)).flatMap((said) => (said.role === 'tool' ? said.results : []));
  expect(results[1]?.outcome).toEqual({ kind: 'rejected', by: 'ann', reason: 'no need', repeatOf: 't1.c0' });
});

test('a denied call is; one that expired, or went over a limit, is asked again (F-5)', async () => {
  const denied = { tool: 'bank/lookup', arguments: { purpose: 'denied' } };
  const run = await world.start(
    [
      { calls: [denied, pay('short', 1), pay('short', 2)] },
      { calls: [denied, pay('short', 1)] },
      { calls: [pay('short', 2)] },
      END,
    ],
    {
      limits: { callsPerTurn: 2 },
      policy: { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } },
    },
  );
  await run.result();
  expect(await outcomes(run)).toEqual({
    't1.c0': 'denied',
    't1.c1': 'expired',
    't1.c2': 'denied',
    't2.c0': 'denied',
    't2.c1': 'expired',
    't3.c0': 'expired',
  });
  const repeats = factsOf(await run.ledger(), 'outcome').filter(({ repeatOf }) => repeatOf !== undefined);
  expect(repeats).toMatchObject([{ callId: 't2.c0', outcome: 'denied', code: 'POLICY_DENIED', repeatOf: 't1.c0' }]);
  expect(bank.callsFor('denied')).toEqual([]);
});

test('a duplicate within a turn says so, and runs only if it is approved itself (INV-G3)', async () => {
  const run = await world.start([{ calls: [pay('twice'), pay('twice'), pay('twice', 2)] }, END]);
  const [first, second, third] = await openRequests(run, 3);
  if (first === undefined || second === undefined || third === undefined) throw new Error('three requests');
  expect([first, second, third].map(({ duplicateOf }) => duplicateOf)).toEqual([undefined, 't1.c0', undefined]);
  const { memo } = await world.client.workflow.getHandle(run.runId).describe();
  expect(memo?.[PENDING_MEMO]).toMatchObject({ requests: [{}, { callId: 't1.c1', duplicateOf: 't1.c0' }, {}] });
  await run.decide(decisionOn(first, 'ann'));
  await ledgerShows(run, 'outcome', 't1.c0');
  expect((await openRequests(run, 2)).map(({ callId }) => callId)).toEqual(['t1.c1', 't1.c2']);
  await run.decide(decisionOn(second, 'ann', 'reject'));
  await run.decide(decisionOn(third, 'ann'));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'rejected', 't1.c2': 'succeeded' });
  expect(bank.callsFor('twice')).toHaveLength(2);
});

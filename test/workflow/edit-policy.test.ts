/** An edited call is judged anew: policy may deny it, or ask others (B-7, F23, INV-G1). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ApprovalRequest, DecisionInput } from '../../contracts/schemas/request.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, factsOf, refusalOf } from '../support/run-record.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const may = ['edit' as const];
  const match = { server: 'bank', tool: 'pay' };
  world = await startWorld({
    config: {
      policy: {
        rules: [
          { id: 'never', match, when: 'args.amount > 1000', then: 'deny', explain: 'Nobody pays that much.' },
          { id: 'much', match, when: 'args.amount > 100', then: 'ask', approvers: { ids: ['zoe'], may } },
          { id: 'some', match, then: 'ask', approvers: { ids: ['ann'], may } },
        ],
      },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const edit = (request: ApprovalRequest, amount: number, who = 'ann'): DecisionInput =>
  Object.assign(decisionOn(request, who), { arguments: { ...request.arguments, amount } });

test('what policy denies is refused with its reason, what others must agree to waits for them, and none of it is sent before', async () => {
  const purpose = 'rules';
  const run = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose, amount: 10 } }] },
    { text: 'done' },
  ]);
  const request = await requestFor(run, 't1.c0');
  expect(request.approvers.allOf).toMatchObject([{ ids: ['ann'] }]);
  expect(await refusalOf(run.decide(edit(request, 5_000)))).toMatchObject({
    code: 'POLICY_DENIED',
    message: expect.stringContaining('Nobody pays that much.'),
  });
  expect(await openRequests(run)).toMatchObject([{ digest: request.digest, arguments: { amount: 10 } }]);

  expect(await run.decide(edit(request, 500))).toMatchObject({ status: 'edited' });
  const [now] = await openRequests(run);
  if (now === undefined) throw new Error('it waits');
  expect(now).toMatchObject({ generation: 2, arguments: { amount: 500 }, approvers: { allOf: [{ ids: ['zoe'] }] } });
  expect(now).not.toHaveProperty('votes');
  expect(await codeOf(run.decide(decisionOn(now, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
  expect(bank.callsFor(purpose)).toEqual([]);

  // Zoe makes it less than what is hers to decide: it is Ann's then.
  expect(await run.decide(edit(now, 50, 'zoe'))).toMatchObject({ status: 'edited' });
  const [small] = await openRequests(run);
  if (small === undefined) throw new Error('it waits');
  expect(small).toMatchObject({ generation: 3, edited: { by: 'zoe', proposed: { amount: 10 } } });
  expect(await run.decide(decisionOn(small, 'ann'))).toMatchObject({ status: 'approved' });
  await run.result();
  expect(bank.callsFor(purpose)).toMatchObject([{ arguments: { purpose, amount: 50 } }]);
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'verdict').map(({ rules }) => rules[0])).toEqual([
    'organisation/rules/some',
    'organisation/rules/much',
    'organisation/rules/some',
  ]);
  expect(factsOf(ledger, 'decision.refused')).toMatchObject([{ code: 'POLICY_DENIED' }]);
});

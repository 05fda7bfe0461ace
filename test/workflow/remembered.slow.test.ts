/** What policy and credentials say about approvals that are remembered: forbidden where policy forbids, over with the credentials. */
import { expect, test } from '@jest/globals';
import { rememberable } from '../../domain/request/onlooker.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import { useBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const { bank, world } = useBank({
  policy: {
    approvers: { ids: ['ann'], remember: ['call', 'tool'] },
    rules: [{ id: 'secret', when: 'has(args.account)', match: { tool: 'pay' }, then: 'ask', neverRemember: true }],
  },
});

const pay = (args: Record<string, string>) => ({ tool: 'bank/pay', arguments: { purpose: 'remembered', ...args } });
const REMEMBERED = { remember: { scope: 'tool' as const } };
const ann = { id: 'ann', groups: [] };

test('neverRemember: nobody is offered to have it remembered, and the run refuses it, only for what the rule matches', async () => {
  const run = await world.start([{ calls: [pay({ account: '7' }), pay({ note: 'x' })] }, { text: 'done' }]);
  const requests = await openRequests(run, 2);
  const offers = requests.map((request) => rememberable(request, ann, permittedTo(request, ann, Date.now())));
  expect(offers).toEqual([[], ['call', 'tool']]);
  const [forbidden, free] = requests;
  await expect(run.decide({ ...decisionOn(forbidden, 'ann'), ...REMEMBERED })).rejects.toMatchObject({
    code: 'DECISION_NOT_PERMITTED',
  });
  await run.decide({ ...decisionOn(free, 'ann'), ...REMEMBERED });
  // What was remembered of the other call does not answer this one.
  expect((await openRequests(run)).map(({ callId }) => callId)).toEqual([forbidden.callId]);
  await run.decide(decisionOn(forbidden, 'ann'));
  await run.result();
  expect(factsOf(await run.ledger(), 'standing.used')).toEqual([]);
});

test('a remembered approval ends with the credentials of a configured server: the next call is asked', async () => {
  const server = world.config.servers['bank'];
  if (server === undefined) throw new Error('the world has the bank');
  const before = bank.calls.length;
  const asking = { tool: 'bank/lookup', arguments: { purpose: 'between' } };
  const run = await world.start([
    { calls: [pay({ note: 'first' })] },
    { calls: [pay({ note: 'second' })] },
    { calls: [asking] },
    { calls: [pay({ note: 'third' })] },
    { text: 'done' },
  ]);
  const [first] = await openRequests(run);
  await run.decide({ ...decisionOn(first, 'ann'), ...REMEMBERED });
  const [between] = await openRequests(run);
  expect(between.tool).toBe('lookup');
  expect(bank.calls.length - before).toBe(2);
  // The operator gives the workers another key for the server.
  server.headers = { 'X-Account': 'canary-account' };
  await world.restartWorkers();
  await run.decide(decisionOn(between, 'ann'));
  const [again] = await openRequests(run);
  expect(again).toMatchObject({
    callId: 't4.c0',
    generation: 2,
    reopenedBecause: expect.stringContaining('STANDING_LOST'),
  });
  expect(JSON.stringify(again)).not.toContain('canary');
  expect(bank.calls.length - before).toBe(3);
  await run.decide(decisionOn(again, 'ann'));
  await run.result();
  expect(bank.calls.length - before).toBe(4);
});

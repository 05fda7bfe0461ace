/** Rules with conditions, on the real server: what they say is what happens, at the proposal and at the dispatch. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { factsOf, outcomes } from '../support/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

const POLICY: ConfigInput['policy'] = {
  strategy: 'never',
  rules: [
    {
      id: 'big',
      match: { tool: 'pay' },
      when: 'args.amount > 100.0',
      then: 'deny',
      explain: 'More than 100 is wired.',
    },
    {
      id: 'third',
      match: { server: 'bank', tool: 'pay' },
      when: 'earlier["bank/pay"].total >= 2',
      then: 'ask',
      approvers: { ids: ['eve'] },
      explain: 'Two payments are enough for one run.',
    },
  ],
};

let engine: TestEngine;
let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  const servers = { bank: { url: bank.url, credentials: { kind: 'none' as const } } };
  world = await startWorld({ engine, config: { taskQueue: 'rules', servers, policy: POLICY } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

const pay = (purpose: string, amount: number) => ({ tool: 'bank/pay', arguments: { purpose, amount } });
const END = { text: 'done' };

describe('a condition', () => {
  test('on arguments denies, and the model hears why (INV-X2, G-5)', async () => {
    const run = await world.start([
      { calls: [pay('big', 101), pay('big', 100)] },
      {
        text: 'lost',
        branches: [{ when: { call: 0, textIncludes: 'More than 100 is wired.' }, then: { text: 'understood' } }],
      },
    ]);
    expect(await run.result()).toMatchObject({ output: 'understood' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'denied', 't1.c1': 'succeeded' });
    expect(bank.callsFor('big')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'verdict', 't1.c0')).toMatchObject([{ rules: ['organisation/rules/big'] }]);
  });

  test('on earlier calls counts those of the turns before, and is judged so again at the dispatch (INV-G1)', async () => {
    const run = await world.start([{ calls: [pay('count', 1)] }, { calls: [pay('count', 2), pay('count', 3)] }, END]);
    const [request] = await openRequests(run);
    expect(request).toMatchObject({
      callId: 't2.c1',
      rules: ['organisation/rules/third'],
      explain: [{ rule: 'organisation/rules/third', text: 'Two payments are enough for one run.' }],
      approvers: { allOf: [{ ids: ['eve'] }] },
      // Asked from the first: no dispatch had to refuse it.
      generation: 1,
    });
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'eve'));
    await run.result();
    expect(bank.callsFor('count').map(({ arguments: args }) => args['amount'])).toEqual([1, 2, 3]);
  });

  test('of a run only tightens, and is refused with its path where it cannot be evaluated (INV-G4)', async () => {
    const steps = [{ calls: [pay('own', 5), pay('own', 50)] }, END];
    const rules = [{ id: 'mine', when: 'args.amount > 10.0', then: 'deny' as const }];
    const run = await world.start(steps, { policy: { rules } });
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'denied' });
    const wrong = await world.start(steps, { policy: { rules: [{ id: 'mine', when: 'amount > 10.0', then: 'ask' }] } });
    await expect(wrong.result()).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('policy.rules[0].when cannot be read: Unknown variable: amount'),
    });
  });
});

/** Explaining a policy that somebody sends takes time of everybody: each person has a turn. */
import { expect, test } from '@jest/globals';
import { ExplainBody } from '../../../contracts/schemas/http/records.ts';
import { Waiters } from '../../../gateway/http/streams.ts';
import { type Explain, Explaining } from '../../../gateway/inbox/explaining.ts';
import { codeOf } from '../../support/refusal.ts';
import { asker } from '../../support/scenes/asking.ts';
import { until } from '../../support/until.ts';

const PLAIN = ExplainBody.parse({ server: 'bank', tool: 'pay' });
const rules = [{ id: 'large', when: 'args.amount > 10', then: 'deny' }];
const CONDITIONAL = ExplainBody.parse({ server: 'bank', tool: 'pay', run: { rules } });

function explaining() {
  const begun: string[] = [];
  let [underWay, mostUnderWay] = [0, 0];
  const ends: (() => void)[] = [];
  const explain: Explain = async ({ initiator, run }) => {
    if (run !== undefined) {
      begun.push(initiator);
      underWay += 1;
      mostUnderWay = Math.max(mostUnderWay, underWay);
      await new Promise<void>((resolve) => void ends.push(resolve));
      underWay -= 1;
    }
    return { verdict: { kind: 'deny', rules: [], message: '', code: 'POLICY_DENIED' }, layers: [] };
  };
  const waiters = new Waiters({ streams: 100, streamsPerPerson: 3 });
  const parts = new Explaining(explain, () => true, waiters);
  const ask = async (id: string, body = CONDITIONAL) => await parts.explain(asker({ id }), body);
  const end = async (number: number): Promise<void> => (await until(() => ends[number]))();
  return { ask, begun, mostUnderWay: () => mostUnderWay, end };
}

test('one policy with conditions is judged at a time, and nobody waits for two of one person', async () => {
  const { ask, begun, mostUnderWay, end } = explaining();
  const asked = ['ann', 'ann', 'ann', 'bob'].map(async (id) => await ask(id));
  for (const number of [0, 1, 2, 3]) await end(number);
  await Promise.all(asked);
  expect(mostUnderWay()).toBe(1);
  expect(begun).toEqual(['ann', 'bob', 'ann', 'ann']);
});

test('a policy without conditions waits for none, and too many of one person are refused', async () => {
  const { ask, end } = explaining();
  const asked = [ask('ann'), ask('ann'), ask('ann')];
  expect(await ask('ann', PLAIN)).toMatchObject({ verdict: { kind: 'deny' } });
  expect(await codeOf(ask('ann'))).toBe('RATE_LIMITED');
  for (const number of [0, 1, 2]) await end(number);
  await Promise.all(asked);
});

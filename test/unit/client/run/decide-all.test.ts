/** Several decisions of one run: a few at a time, one answer for each (INV-G3). */
import { expect, test } from '@jest/globals';
import { decideAll } from '../../../../client/run/inbox.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { parseAs } from '../../../../contracts/schemas/parse.ts';
import { Decision, type DecisionAck, type DecisionInput } from '../../../../contracts/schemas/request.ts';
import { approval } from '../../../support/builders/decision.ts';

const many = Array.from({ length: 20 }, (_, index): DecisionInput =>
  approval({ callId: `t1.c${index}`, decisionId: `d-${index}` }),
);

function ackOf({ callId, decisionId }: DecisionInput): DecisionAck {
  return { callId, decisionId, status: 'approved', decidedBy: 'ann', decidedAt: '' };
}

test('at most four are under way, and each is sent once, whatever became of the others', async () => {
  let underWay = 0;
  let most = 0;
  const sent: string[] = [];
  const answers = await decideAll(many, async (input) => {
    sent.push(input.callId);
    most = Math.max(most, (underWay += 1));
    await Promise.resolve();
    underWay -= 1;
    if (input.callId.endsWith('3'))
      throw new CountersignError('ALREADY_DECIDED', 'Ben was first.', { decidedBy: 'ben' });
    return ackOf(input);
  });
  expect(most).toBe(4);
  expect(sent.toSorted()).toEqual(many.map(({ callId }) => callId).toSorted());
  expect(answers.map(({ callId }) => callId)).toEqual(many.map(({ callId }) => callId));
  expect(answers.filter(({ kind }) => kind === 'refused')).toMatchObject([
    { callId: 't1.c3', decisionId: 'd-3', error: { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ben' } } },
    { callId: 't1.c13' },
  ]);
});

test('none is fine, and a fault of ours is no answer', async () => {
  expect(await decideAll([], async (input) => ackOf(input))).toEqual([]);
  await expect(
    decideAll(many, async () => {
      await Promise.resolve();
      throw new TypeError('a fault');
    }),
  ).rejects.toThrow('a fault');
});

test('what is no decision has an answer of its own, and takes none from the others', async () => {
  // Sound: so a caller without types hands on a list that came from elsewhere.
  const inputs = [...many.slice(0, 1), null] as unknown as DecisionInput[];
  const answers = await decideAll(inputs, async (input) =>
    ackOf(parseAs(Decision, input, 'DECISION_INVALID', 'decision')),
  );
  expect(answers).toMatchObject([
    { callId: 't1.c0', kind: 'accepted' },
    { callId: '', decisionId: '', kind: 'refused', error: { code: 'DECISION_INVALID' } },
  ]);
});

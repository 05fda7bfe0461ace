/** What several layers of policy say of the time of a request (F-4, F-6). */
import { expect, test } from '@jest/globals';
import { Policy, type PolicyInput } from '../../../../contracts/schemas/policy.ts';
import { judge } from '../../../../domain/policy/judge.ts';

const tool = { server: 'bank', tool: 'pay', annotations: undefined, serverTrusted: false };

function askedUnder(organisation: PolicyInput, run?: PolicyInput) {
  const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'ann');
  if (verdict.kind !== 'ask') throw new Error('it is asked');
  const { validForSeconds, extendableToSeconds } = verdict.approvers;
  return { deadline: verdict.deadlineSeconds, validForSeconds, extendableToSeconds };
}

test('nothing is in the rule that nobody said: digests of today are those of before', () => {
  expect(judge({ organisation: Policy.parse({ deadlineSeconds: 60 }), run: undefined }, tool, 'ann')).toEqual({
    kind: 'ask',
    rules: ['organisation/default'],
    approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
    deadlineSeconds: 60,
  });
});

test('F-6: the shortest validity counts; a tool speaks in place of its layer', () => {
  expect(askedUnder({ validForSeconds: 60 })).toMatchObject({ validForSeconds: 60 });
  expect(askedUnder({ validForSeconds: 60 }, { validForSeconds: 5 })).toMatchObject({ validForSeconds: 5 });
  expect(askedUnder({ validForSeconds: 60 }, { validForSeconds: 500 })).toMatchObject({ validForSeconds: 60 });
  const pay = { action: 'ask' as const, validForSeconds: 7 };
  expect(askedUnder({ validForSeconds: 60, servers: { bank: { tools: { pay } } } })).toMatchObject({
    validForSeconds: 7,
  });
});

test('F-7: the first reminder counts, whichever layer wants it', () => {
  const reminded = (organisation: PolicyInput, run?: PolicyInput) => {
    const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'ann');
    return verdict.kind === 'ask' ? verdict.approvers.remindAfterSeconds : undefined;
  };
  expect(reminded({ remindAfterSeconds: 60 })).toBe(60);
  expect(reminded({ remindAfterSeconds: 60 }, { remindAfterSeconds: 30 })).toBe(30);
  expect(reminded({ remindAfterSeconds: 60 }, { remindAfterSeconds: 90 })).toBe(60);
});

test.each<[string, PolicyInput, PolicyInput | undefined, number | undefined]>([
  ['as the organisation permits', { deadlineSeconds: 60, extendableToSeconds: 600 }, undefined, 600],
  [
    'less where the run says less',
    { deadlineSeconds: 60, extendableToSeconds: 600 },
    { extendableToSeconds: 300 },
    300,
  ],
  [
    'no more because the run says more',
    { deadlineSeconds: 60, extendableToSeconds: 600 },
    { extendableToSeconds: 900 },
    600,
  ],
  ['not where the organisation does not permit it', { deadlineSeconds: 60 }, { extendableToSeconds: 900 }, undefined],
  ['not past the 24 hours of its silence', {}, { deadlineSeconds: 60, extendableToSeconds: 999_999 }, 86_400],
  [
    'not past the deadline of a run that permits nothing',
    { deadlineSeconds: 60, extendableToSeconds: 600 },
    { deadlineSeconds: 30 },
    undefined,
  ],
  ['not where it would shorten', { deadlineSeconds: 60, extendableToSeconds: 30 }, undefined, undefined],
])('F-4: the deadline may be postponed %s', (_, organisation, run, latest) => {
  expect(askedUnder(organisation, run).extendableToSeconds).toBe(latest);
});

/** How a list of approvers becomes what a request carries (E-2, E-3). */
import { expect, test } from '@jest/globals';
import { ApproverList, Policy, type PolicyInput } from '../../../../contracts/schemas/policy.ts';
import { clauseOf } from '../../../../domain/policy/approvers.ts';
import { judge } from '../../../../domain/policy/judge.ts';

const tool = { server: 'mail', tool: 'send', annotations: undefined, serverTrusted: false };
const approversOf = (organisation: PolicyInput, run?: PolicyInput) => {
  const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'eve');
  return verdict.kind === 'ask' ? verdict.approvers : undefined;
};

test('E-3: that the acting user confirms is said as such, and is no four eyes', () => {
  expect(clauseOf('organisation', { onlyInitiator: true }, 'eve')).toEqual({
    layer: 'organisation',
    ids: ['eve'],
    groups: [],
  });
  expect(clauseOf('organisation', { ids: ['ann'], notInitiator: true }, 'eve')).toMatchObject({ not: ['eve'] });
});

test('INV-G4: whatever stands beside it, nobody but the initiator confirms; and it is refused where it is written', () => {
  // As a policy of a later version may hold it.
  expect(clauseOf('run', { onlyInitiator: true, ids: ['mallory'], groups: ['all'] }, 'eve')).toMatchObject({
    ids: ['eve'],
    groups: [],
  });
  for (const beside of [
    { ids: ['ann'] },
    { groups: ['ops'] },
    { need: 2 },
    { notInitiator: true },
    { escalate: { afterSeconds: 1, add: {} } },
  ])
    expect(ApproverList.safeParse({ onlyInitiator: true, ...beside }).error?.issues).toMatchObject([
      { path: ['onlyInitiator'] },
    ]);
  expect(ApproverList.safeParse({ onlyInitiator: true }).success).toBe(true);
});

test('E-3: whoever names others besides asks them as well', () => {
  const rule = approversOf({ approvers: { onlyInitiator: true } }, { approvers: { ids: ['ann'] } });
  expect(rule).toMatchObject({ allOf: [{ ids: ['eve'] }, { ids: ['ann'] }], together: true });
});

test("a run's own policy may leave out what is empty", () => {
  const later = clauseOf('run', { ids: ['ann'], escalate: { afterSeconds: 60, add: { groups: ['ops'] } } }, 'eve');
  expect(later).toMatchObject({ escalate: { afterSeconds: 60, add: { ids: [], groups: ['ops'] } } });
  const others = clauseOf('run', { ids: ['ann'], escalate: { afterSeconds: 60, replace: { ids: ['zoe'] } } }, 'eve');
  expect(others).toMatchObject({ escalate: { afterSeconds: 60, replace: { ids: ['zoe'], groups: [] } } });
});

test("F20: an escalation of a run's own layer makes nobody meet what the organisation asks for", () => {
  const rule = approversOf(
    { approvers: { ids: ['ann'] } },
    { approvers: { ids: ['bob'], escalate: { afterSeconds: 1, add: { ids: ['mallory'] } } } },
  );
  expect(rule?.allOf).toEqual([
    { layer: 'organisation', ids: ['ann'], groups: [] },
    { layer: 'run', ids: ['bob'], groups: [], escalate: { afterSeconds: 1, add: { ids: ['mallory'], groups: [] } } },
  ]);
});

test.each([
  ['both', { afterSeconds: 60, add: {}, replace: {} }],
  ['neither', { afterSeconds: 60 }],
  ['at once', { afterSeconds: 0, add: {} }],
])('an escalation that does %s is not valid', (_, escalate) => {
  expect(ApproverList.safeParse({ ids: ['ann'], escalate }).success).toBe(false);
});

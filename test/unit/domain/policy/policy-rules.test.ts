/** Ordered rules of a layer, and conditions of which nothing certain is known (INV-G4, S4.1, D-10). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PolicyInput, PolicyRuleInput } from '../../../../contracts/schemas/policy.ts';
import { type Holds, judge } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool } from '../../../support/builders/policy.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;

function verdict(organisation: PolicyInput, holds: Holds = 'unknown', run?: PolicyInput) {
  return judge({ organisation: organisation as never, run }, judgedTool(), 'ann', () => holds);
}

describe('INV-G4: a condition that fails', () => {
  test.each(['failed', 'unknown'] as const)('%s: matches for what asks or denies, never for what allows', (holds) => {
    const rule = (then: PolicyRuleInput['then']): PolicyRuleInput => ({ id: 'r', when: 'x', then });
    expect(verdict({ rules: [rule('deny')], strategy: 'never' }, holds).kind).toBe('deny');
    expect(verdict({ rules: [rule('ask')], strategy: 'never' }, holds).kind).toBe('ask');
    expect(verdict({ rules: [rule('allow')] }, holds).kind).toBe('ask');
  });

  test('never makes a verdict looser than the stricter of what it would be either way', () => {
    fc.assert(
      fc.property(policy, fc.constantFrom('failed' as const, 'unknown' as const), (organisation, holds) => {
        const either = [true, false].map((answer) => STRICTNESS[verdict(organisation, answer).kind]);
        const unsure = STRICTNESS[verdict(organisation, holds).kind];
        expect(unsure).toBeGreaterThanOrEqual(Math.max(...either));
      }),
      { numRuns: 500 },
    );
  });

  test('is said in the rules, and those who may be meant are asked together', () => {
    const rules: PolicyRuleInput[] = [
      { id: 'a', when: 'x', then: 'ask', approvers: { ids: ['eve'] }, explain: 'First.' },
      { id: 'b', then: 'ask', approvers: { ids: ['eve'] }, deadlineSeconds: 60, explain: 'Second.' },
    ];
    expect(verdict({ rules }, 'failed')).toEqual({
      kind: 'ask',
      rules: ['organisation/rules/a (condition failed)', 'organisation/rules/b'],
      approvers: { allOf: [{ layer: 'organisation', ids: ['eve'], groups: [] }] },
      deadlineSeconds: 60,
      explain: [
        { rule: 'organisation/rules/a (condition failed)', text: 'First.' },
        { rule: 'organisation/rules/b', text: 'Second.' },
      ],
    });
  });

  test('without anybody to ask nothing is known of any condition', () => {
    const organisation = { rules: [{ id: 'a', when: 'true', then: 'allow' as const }] };
    expect(judge({ organisation, run: undefined }, judgedTool(), 'ann')).toMatchObject({
      rules: ['organisation/default'],
    });
  });
});

describe('a run', () => {
  test('with rules about others has no say; with lists it has one about everything', () => {
    const organisation = { strategy: 'never' as const };
    const other = { rules: [{ id: 'x', match: { server: 'mail' }, then: 'deny' as const }] };
    expect(verdict(organisation, true, other)).toEqual({ kind: 'allow', rules: ['organisation/strategy/never'] });
    expect(verdict(organisation, true, { always: ['mail/send'] })).toMatchObject({ rules: ['run/default'] });
    expect(verdict(organisation, true, { never: ['files/*'] }).kind).toBe('allow');
  });

  test('that asks because a condition failed asks though it says nothing else', () => {
    const run = { rules: [{ id: 'x', when: 'y', then: 'ask' as const }] };
    expect(verdict({ strategy: 'never' }, 'failed', run)).toMatchObject({
      kind: 'ask',
      rules: ['run/rules/x (condition failed)'],
    });
  });
});

test('what a rule explains reaches the model inert', () => {
  const rules: PolicyRuleInput[] = [{ id: 'no', then: 'deny', explain: 'Not\u202Enow\n.' }];
  expect(verdict({ rules })).toMatchObject({ message: expect.stringContaining('Not\\u{202e}now\\u{a}.') });
});

test('a rule whose action nobody knows asks', () => {
  // Sound: a stored policy of a later version may hold it.
  const rules = [{ id: 'later', then: 'escalate' }] as unknown as PolicyRuleInput[];
  expect(verdict({ rules, strategy: 'never' }).kind).toBe('ask');
});

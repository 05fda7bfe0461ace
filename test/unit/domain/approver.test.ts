/** Who may decide (E-1, D-7, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import { describeRule, isEntitled } from '../../../domain/approver.ts';
import { approverList } from '../../support/builders/arbitraries.ts';
import { approverRule } from '../../support/builders/judgement.ts';

const clause = approverList.map(({ ids, groups }) => ({ layer: 'organisation' as const, ids, groups }));
const rule: fc.Arbitrary<ApproverRule> = fc.record({ allOf: fc.array(clause, { minLength: 1, maxLength: 3 }) });
const person = fc.record({
  id: fc.constantFrom('ann', 'bob', 'zoe'),
  groups: fc.uniqueArray(fc.constantFrom('ops', 'sec', 'ann'), { maxLength: 3 }),
});
const ann = { id: 'ann', groups: [] };

describe('entitlement', () => {
  test('a person is entitled by id or by any of the groups', () => {
    expect(isEntitled(approverRule(['ann', 'bob']), ann)).toBe(true);
    expect(isEntitled(approverRule([], ['sec', 'ops']), { id: 'zoe', groups: ['x', 'ops'] })).toBe(true);
    expect(isEntitled(approverRule(['bob'], ['ops']), { id: 'ann', groups: ['sec'] })).toBe(false);
  });

  test('INV-G4: empty lists entitle nobody, whatever groups a person claims', () => {
    fc.assert(
      fc.property(rule, person, (given, who) => {
        const withEmpty = { allOf: [...given.allOf, { layer: 'run' as const, ids: [], groups: [] }] };
        expect(isEntitled(withEmpty, who)).toBe(false);
      }),
    );
  });

  test('INV-G4: a rule without any clause entitles nobody', () => {
    fc.assert(fc.property(person, (who) => !isEntitled({ allOf: [] }, who)));
  });

  test('every clause must be met: one more can only take people away', () => {
    fc.assert(
      fc.property(rule, clause, person, (given, more, who) => {
        const stricter = { allOf: [...given.allOf, more] };
        expect(isEntitled(stricter, who)).toBe(isEntitled(given, who) && isEntitled({ allOf: [more] }, who));
      }),
    );
  });

  test('an id is no group and a group is no id', () => {
    expect(isEntitled(approverRule(['ops']), { id: 'zoe', groups: ['ops'] })).toBe(false);
    expect(isEntitled(approverRule([], ['ann']), ann)).toBe(false);
  });

  test('names are compared whole and as they are written', () => {
    for (const id of ['Ann', 'an', 'anna', 'ann '])
      expect(isEntitled(approverRule(['ann']), { id, groups: [] })).toBe(false);
  });
});

describe('a rule in words', () => {
  test('names ids and groups, and joins clauses by and', () => {
    const two: ApproverRule = {
      allOf: [...approverRule(['ann', 'bob'], ['ops']).allOf, ...approverRule([], ['sec']).allOf],
    };
    expect(describeRule(two)).toBe('ann or bob or group:ops and group:sec');
  });

  test('says nobody where nobody may', () => {
    expect(describeRule(approverRule([]))).toBe('nobody');
  });
});

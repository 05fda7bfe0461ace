/** Who may change a catalog: nobody, where nobody is named (INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { CatalogRules } from '../../../../contracts/schemas/catalog.ts';
import { missingRight, rightsOf } from '../../../../domain/catalog/settings.ts';
import { ann, bob, catalogRules } from '../../../support/builders/catalog.ts';

const right = fc.constantFrom('connect', 'loosen', 'tighten');
const name: fc.Arbitrary<string> = fc.constantFrom('ann', 'bob', 'ops', 'constructor');
const administrators: fc.Arbitrary<CatalogRules['administrators']> = fc.array(
  fc.record({
    ids: fc.uniqueArray(name, { maxLength: 2 }),
    groups: fc.uniqueArray(name, { maxLength: 2 }),
    may: fc.uniqueArray(right, { minLength: 1 }),
  }),
  { maxLength: 4 },
);
const who = fc.record({ id: name, groups: fc.uniqueArray(name, { maxLength: 3 }) });

describe('rights', () => {
  test('INV-G4: where nobody is named, nobody may', () => {
    fc.assert(
      fc.property(who, (by) => {
        expect(rightsOf(catalogRules({ administrators: [] }), by).size).toBe(0);
        const nobody = [{ ids: [], groups: [], may: ['connect', 'loosen', 'tighten'] as const }];
        const rules = catalogRules({ administrators: nobody.map((each) => ({ ...each, may: [...each.may] })) });
        expect(rightsOf(rules, by).size).toBe(0);
        for (const needed of ['connect', 'loosen', 'tighten'] as const)
          expect(missingRight(rules, by, [needed])).toBe(needed);
      }),
    );
  });

  test('come by id and by group, and add up', () => {
    const rules = catalogRules({
      administrators: [
        { ids: ['ann'], groups: [], may: ['tighten'] },
        { ids: [], groups: ['ops', 'sec'], may: ['connect', 'tighten'] },
        { ids: ['bob'], groups: [], may: ['loosen'] },
      ],
    });
    expect([...rightsOf(rules, ann)].toSorted()).toEqual(['connect', 'tighten']);
    expect([...rightsOf(rules, bob)]).toEqual(['loosen']);
    expect([...rightsOf(rules, { id: 'ops', groups: ['ann'] })]).toEqual([]);
  });

  test('loosening and tightening are rights apart, and the first that is missing is named', () => {
    const rules = catalogRules({ administrators: [{ ids: ['ann'], groups: [], may: ['tighten'] }] });
    expect(missingRight(rules, ann, ['tighten'])).toBeUndefined();
    expect(missingRight(rules, ann, new Set(['tighten', 'loosen'] as const))).toBe('loosen');
    expect(missingRight(rules, ann, ['connect', 'loosen'])).toBe('connect');
    expect(missingRight(rules, ann, [])).toBeUndefined();
  });

  test('nobody has a right that no entry which names them gives', () => {
    fc.assert(
      fc.property(administrators, who, (named, by) => {
        for (const has of rightsOf(catalogRules({ administrators: named }), by))
          expect(
            named.some(
              ({ ids, groups, may }) =>
                may.includes(has) && (ids.includes(by.id) || groups.some((group) => by.groups.includes(group))),
            ),
          ).toBe(true);
      }),
    );
  });
});

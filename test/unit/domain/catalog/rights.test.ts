/** What people are offered in catalogs is what the catalog takes from them. */
import { describe, expect, test } from '@jest/globals';
import { agreed, opened } from '../../../../domain/catalog/pending.ts';
import { administratorsOf, catalogOffers, pendingOffers } from '../../../../domain/catalog/rights.ts';
import type { Catalog } from '../../../../domain/catalog/state.ts';
import {
  ann,
  bob,
  catalogDecision,
  catalogEntry,
  catalogOf,
  catalogRules,
  planOf,
  taken,
  toolSetting,
} from '../../../support/builders/catalog.ts';

test('administrators of another tenant have no right in this one', () => {
  const both = [
    { tenant: 'acme', ids: ['ann'], groups: ['ops'], may: ['loosen' as const] },
    { tenant: 'other', ids: ['bob'], groups: [], may: ['connect' as const] },
  ];
  expect(administratorsOf(both, 'acme')).toEqual([{ ids: ['ann'], groups: ['ops'], may: ['loosen'] }]);
  expect(administratorsOf(both, 'nobody')).toEqual([]);
});

test('each right offers its actions, and a disconnected server has nothing to refresh', () => {
  expect(catalogOffers({ status: 'connected' }, new Set())).toEqual([]);
  expect(catalogOffers({ status: 'connected' }, new Set(['tighten']))).toEqual(['refresh', 'tighten']);
  expect(catalogOffers({ status: 'connected' }, new Set(['connect', 'loosen']))).toEqual([
    'connect',
    'disconnect',
    'refresh',
    'loosen',
  ]);
  expect(catalogOffers({ status: 'disconnected' }, new Set(['connect', 'tighten']))).toEqual(['connect', 'tighten']);
});

describe('a change that waits', () => {
  const rules = catalogRules();
  const changes = [{ tool: 'write_file', requiresApproval: false }];
  const asking = catalogOf([catalogEntry({ setting: toolSetting({ requiresApproval: true }) })]);
  const { catalog } = taken(opened(asking, { by: ann, changes }, planOf(asking, changes), 0));
  const [pending] = catalog.pending;
  if (pending === undefined) throw new Error('nothing waits');

  const takes = (by: typeof ann, verdict: 'approve' | 'reject', now: number, held: Catalog = catalog): boolean => {
    const decision = catalogDecision({ by, changeId: pending.changeId, digest: pending.digest, verdict });
    const answer = agreed(held, decision, rules, now, () => true);
    return !('kind' in answer);
  };

  test.each([
    ['who asked for it', ann, 0],
    ['who asked for it, in other letters', { ...ann, id: 'Ann' }, 0],
    ['a second administrator', bob, 0],
    ['a second administrator, too late', bob, Date.parse(pending.deadline)],
    ['somebody without the right', { id: 'eve', groups: [] }, 0],
  ])('offers to %s what would be taken', (_, by, now) => {
    const offers = pendingOffers(pending, rules, by, now);
    for (const verdict of ['approve', 'reject'] as const)
      expect([verdict, offers.includes(verdict)]).toEqual([verdict, takes(by, verdict, now)]);
  });

  test('who asked for it may not agree in another spelling, where ids are compared so', () => {
    const ignoring = catalogRules({ idCase: 'ignored' });
    expect(pendingOffers(pending, ignoring, { ...ann, id: 'ANN' }, 0)).toEqual(['reject']);
  });
});

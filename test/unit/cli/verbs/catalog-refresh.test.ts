/** What a refresh has changed, for whoever has read the catalog before. */
import { expect, test } from '@jest/globals';
import { refreshDifference } from '../../../../cli/verbs/catalog-changes.ts';
import { catalogEntry, catalogOf, refreshed } from '../../../support/builders/catalog.ts';

test('tools that came, went, came back, and are others now', () => {
  const one = refreshed(catalogOf(), 1, { a: 'first', b: 'first', c: 'first' });
  const two = refreshed(one, 2, { b: 'second', c: 'first', d: 'first' });
  expect(refreshDifference(one.entries, two.entries)).toEqual({
    added: ['d'],
    missing: ['a'],
    returned: [],
    changed: ['b'],
  });
  const three = refreshed(two, 3, { a: 'second', b: 'second', c: 'first', d: 'first' });
  expect(refreshDifference(two.entries, three.entries)).toEqual({
    added: [],
    missing: [],
    returned: ['a'],
    changed: ['a'],
  });
  expect(refreshDifference(three.entries, three.entries)).toEqual({
    added: [],
    missing: [],
    returned: [],
    changed: [],
  });
  expect(refreshDifference([], [catalogEntry()]).added).toEqual(['write_file']);
});

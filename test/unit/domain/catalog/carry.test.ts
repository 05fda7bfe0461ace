/** What of a catalog fits into its next execution, and what of its ledger. */
import { expect, test } from '@jest/globals';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { canBeCarried, CATALOG_BYTES, overLimit } from '../../../../domain/catalog/carry.ts';
import { refreshFailed } from '../../../../domain/catalog/discovery.ts';
import { answered, type Catalog } from '../../../../domain/catalog/state.ts';
import { EMPTY_JOURNAL, Journal } from '../../../../domain/run/journal.ts';
import { PAGE_BYTES } from '../../../../domain/text/page.ts';
import { at, catalogEntry, catalogOf } from '../../../support/builders/catalog.ts';

const named = (name: string): Catalog => catalogOf([catalogEntry({ name })]);
const refused = (name: string): boolean => overLimit({ catalog: named(name), facts: [] }) !== undefined;
const { connection, entries, listings, pending } = named('');
const room = CATALOG_BYTES - JSON.stringify({ connection, entries, listings, pending }).length;
const fact = (message: string): LedgerFact => ({ kind: 'catalog.refresh-failed', refresh: 1, code: 'X', message });

test('what is more than an execution can hand on is over the limit, in bytes and not in characters', () => {
  expect(refused('x'.repeat(room))).toBe(false);
  expect(overLimit({ catalog: named('x'.repeat(room + 1)), facts: [] })).toMatchObject({
    code: 'LIMIT_REACHED',
    facts: { limit: 'catalog' },
  });
  expect(refused('é'.repeat(room / 2 + 1))).toBe(true);
});

test('a catalog that is full can still say that a refresh failed, and answer', () => {
  const full = named('x'.repeat(room));
  expect(overLimit(refreshFailed(full, 2, { code: 'X', message: 'm'.repeat(500) }, at(1)))).toBeUndefined();
  const ack = { requestId: 'r'.repeat(200), status: 'applied', policyVersion: 1 } as const;
  expect(overLimit({ catalog: answered(full, ack, 'd'), facts: [] })).toBeUndefined();
});

test('a ledger entry that no page takes is over the limit', () => {
  const change = (message: string) => overLimit({ catalog: named('list'), facts: [fact(message)] });
  const space = PAGE_BYTES - JSON.stringify(fact('')).length;
  expect(change('x'.repeat(space))).toBeUndefined();
  expect(change('x'.repeat(space + 1))).toMatchObject({ code: 'LIMIT_REACHED', facts: { limit: 'catalogChange' } });
});

test('what came while the ledger was stored is carried, up to a number of entries and of bytes', () => {
  const carried = (count: number, message: string): boolean => {
    const journal = new Journal(EMPTY_JOURNAL);
    for (let n = 0; n < count; n += 1) journal.record(n, fact(message));
    return canBeCarried(journal.entries(0, count));
  };
  expect([carried(0, ''), carried(100, ''), carried(101, '')]).toEqual([true, true, false]);
  expect([carried(2, 'x'.repeat(200_000)), carried(2, 'x'.repeat(300_000))]).toEqual([true, false]);
});

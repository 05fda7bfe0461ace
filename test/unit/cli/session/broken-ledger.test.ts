/** Faults of a ledger that say nothing about the record itself accuse nobody. */
import { describe, expect, test } from '@jest/globals';
import { isRecordInDoubt } from '../../../../cli/session/broken-ledger.ts';
import type { FaultKind, LedgerFault } from '../../../../client/ledger/check.ts';
import type { AnyEntry } from '../../../../contracts/schemas/ledger.ts';
import { GENESIS } from '../../../../domain/run/journal.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';

function chain(...texts: readonly string[]): readonly AnyEntry[] {
  const entries: AnyEntry[] = [];
  for (const [seq, text] of texts.entries()) {
    const fact = { kind: 'said', text };
    const body = { seq, at: '2026-11-22T10:00:00.000Z', prev: entries.at(-1)?.hash ?? GENESIS, fact };
    entries.push({ ...body, hash: hashOf(body) });
  }
  return entries;
}

const RUN = chain('one', 'two', 'three');
const FORGED = chain('one', 'other', 'three');
const fault = (kind: FaultKind): LedgerFault => ({ kind, seq: 1, reason: 'is so' });

test.each<FaultKind>([
  'proof-foreign-key',
  'proof-unsigned',
  'proof-altered',
  'proof-not-entitled',
  'proof-expired',
  'foreign-head',
  'unreadable',
  'unsigned',
])('%s is no fault of what was recorded: nobody is accused, whatever the copy says', (kind) => {
  expect(isRecordInDoubt([fault(kind)], { copy: FORGED, run: RUN })).toBe(false);
  // Beside another fault it changes nothing.
  expect(isRecordInDoubt([fault(kind), fault('rewritten')], { copy: FORGED, run: RUN })).toBe(true);
});

describe('a fault of the record', () => {
  const isInDoubt = (copy: readonly AnyEntry[]): boolean => isRecordInDoubt([fault('rewritten')], { copy, run: RUN });

  test('a copy that says what the run says, or the first part of it, does not differ', () => {
    expect(isInDoubt(RUN)).toBe(false);
    expect(isInDoubt(RUN.slice(0, 2))).toBe(false);
    expect(isInDoubt([...RUN, ...RUN.slice(0, 1)])).toBe(false);
  });

  test('a copy that says otherwise, more, or leaves out what it goes on from, does', () => {
    expect(isInDoubt(FORGED)).toBe(true);
    expect(isInDoubt(chain('one', 'two', 'three', 'four'))).toBe(true);
    expect(isInDoubt(RUN.filter(({ seq }) => seq !== 1))).toBe(true);
    // Changed in place, under the hash that it had.
    expect(
      isInDoubt(RUN.map((entry) => (entry.seq === 1 ? { ...entry, at: '2026-11-22T09:00:00.000Z' } : entry))),
    ).toBe(true);
  });
});

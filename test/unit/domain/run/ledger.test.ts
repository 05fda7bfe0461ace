/** The hash chain: what was recorded cannot be changed afterwards without being seen. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { LedgerEntry } from '../../../../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry, verifyChain } from '../../../../domain/run/journal.ts';
import { ledgerOf, saidFact } from '../../../support/builders/ledger.ts';
import { START } from '../../../support/builders/run.ts';

const chain = fc
  .array(fc.string({ minLength: 1, maxLength: 6 }), { minLength: 3, maxLength: 12 })
  .map((ids) => ledgerOf(ids.map((id, index) => saidFact(`${index}-${id}`))));

/** A sound chain and a place in it that something follows. */
const chainAndPlace = chain.chain((entries) => fc.tuple(fc.constant(entries), fc.nat({ max: entries.length - 2 })));

function brokenAt(entries: readonly LedgerEntry[]): number | undefined {
  const check = verifyChain(entries);
  return check.kind === 'broken' ? check.seq : undefined;
}

function at(entries: readonly LedgerEntry[], index: number): LedgerEntry {
  const entry = entries[index];
  if (entry === undefined) throw new Error(`the chain has no entry ${index}`);
  return entry;
}

describe('ledger chain', () => {
  test('one that was left alone is intact, and its head is the hash of its last entry', () => {
    fc.assert(
      fc.property(chain, (entries) => {
        expect(verifyChain(entries)).toEqual({
          kind: 'intact',
          head: at(entries, entries.length - 1).hash,
          length: entries.length,
        });
      }),
    );
    expect(verifyChain([])).toEqual({ kind: 'intact', head: GENESIS, length: 0 });
  });

  test('is the same after a way through JSON', () => {
    fc.assert(
      fc.property(
        chain,
        (entries) => verifyChain(JSON.parse(JSON.stringify(entries)) as LedgerEntry[]).kind === 'intact',
      ),
    );
  });

  test.each<[string, (entry: LedgerEntry) => LedgerEntry]>([
    ['fact', (entry) => ({ ...entry, fact: saidFact('forged') })],
    ['time', (entry) => ({ ...entry, at: '2020-01-01T00:00:00.000Z' })],
    ['hash', (entry) => ({ ...entry, hash: 'f'.repeat(64) })],
    ['previous hash', (entry) => ({ ...entry, prev: 'f'.repeat(64) })],
    ['number', (entry) => ({ ...entry, seq: entry.seq + 1 })],
    // Sound for the test: an entry of a file may hold anything.
    ['field that no entry has', (entry) => ({ ...entry, note: 'x' }) as LedgerEntry],
  ])('a changed %s shows at that entry', (_what, change) => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => {
        expect(brokenAt(entries.with(place, change(at(entries, place))))).toBe(place);
      }),
    );
  });

  test('an entry that is rewritten with a hash of its own breaks the one after it', () => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => {
        const { seq, prev } = at(entries, place);
        expect(brokenAt(entries.with(place, sealEntry(seq, prev, START, saidFact('forged'))))).toBe(place + 1);
      }),
    );
  });

  test('a dropped entry shows at its place', () => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => expect(brokenAt(entries.toSpliced(place, 1))).toBe(place)),
    );
  });

  test('a cut tail shows in length and head, which the run tells apart from the entries', () => {
    fc.assert(
      fc.property(chain, (entries) => {
        const cut = verifyChain(entries.slice(0, -1));
        expect(cut).not.toEqual(verifyChain(entries));
      }),
    );
  });

  test('swapped entries show at the first of them, also when their numbers are swapped back', () => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => {
        const [one, other] = [at(entries, place), at(entries, place + 1)];
        expect(brokenAt(entries.with(place, other).with(place + 1, one))).toBe(place);
        const renumbered = entries.with(place, { ...other, seq: one.seq }).with(place + 1, { ...one, seq: other.seq });
        expect(brokenAt(renumbered)).toBe(place);
      }),
    );
  });

  test('an inserted entry shows, also when it is sealed with the right number and previous hash', () => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => {
        const { seq, prev } = at(entries, place);
        const forged = sealEntry(seq, prev, START, saidFact('forged'));
        expect(brokenAt(entries.toSpliced(place, 0, forged))).toBe(place + 1);
        const renumbered = entries.slice(place).map((entry) => ({ ...entry, seq: entry.seq + 1 }));
        expect(brokenAt([...entries.slice(0, place), forged, ...renumbered])).toBe(place + 1);
      }),
    );
  });

  test('a stretch verifies on what was before it, and on nothing else', () => {
    fc.assert(
      fc.property(chainAndPlace, ([entries, place]) => {
        const stretch = entries.slice(place);
        const { prev } = at(entries, place);
        expect(verifyChain(stretch, place, prev)).toEqual(verifyChain(entries));
        expect(verifyChain(stretch, place + 1, prev)).toMatchObject({ kind: 'broken', seq: place + 1 });
        expect(verifyChain(stretch, place, 'f'.repeat(64))).toMatchObject({ kind: 'broken', seq: place });
      }),
    );
  });

  test('a broken chain says what is wrong, for the person who verifies it', () => {
    const entries = ledgerOf([saidFact('a'), saidFact('b')]);
    expect(verifyChain(entries.slice(1))).toEqual({ kind: 'broken', seq: 0, reason: 'expected number 0, found 1' });
    expect(verifyChain(entries, 0, 'f'.repeat(64))).toMatchObject({ reason: 'does not follow the entry before it' });
    expect(verifyChain([{ ...at(entries, 0), hash: GENESIS }])).toMatchObject({
      reason: 'was changed after it was written',
    });
  });
});

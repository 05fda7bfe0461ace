/** What one execution holds of transcript and ledger (INV-D2, INV-D3). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { LedgerEntry, LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import {
  EMPTY_DIGEST,
  EMPTY_JOURNAL,
  extendDigest,
  GENESIS,
  Journal,
  marked,
  sealEntry,
  verifyChain,
} from '../../../../domain/run/journal.ts';
import { ledgerOf, saidFact } from '../../../support/builders/ledger.ts';
import { conversation } from '../../../support/builders/message.ts';
import { START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

const segment: ArtifactRef = { sha256: 'd'.repeat(64), bytes: 10, contentType: 'application/json' };

function filled(count: number, journal = new Journal(EMPTY_JOURNAL)): Journal {
  for (let index = 0; index < count; index += 1) {
    journal.record(START + index, saidFact(`m-${index}`));
    journal.append({ role: 'user', text: `message ${index}` });
  }
  return journal;
}

describe('journal', () => {
  test('is empty at the start of a run', () => {
    const {
      ledgerLength,
      ledgerHead,
      transcriptLength,
      transcriptDigest,
      segment: stored,
    } = new Journal(EMPTY_JOURNAL);
    expect({ ledgerLength, ledgerHead, transcriptLength, transcriptDigest, stored }).toEqual({
      ledgerLength: 0,
      ledgerHead: GENESIS,
      transcriptLength: 0,
      transcriptDigest: EMPTY_DIGEST,
      stored: undefined,
    });
  });

  test('keeps facts as one chain, in the order in which they were recorded', () => {
    const journal = filled(4);
    expect(verifyChain(journal.entries(0, 4))).toEqual({
      kind: 'intact',
      head: journal.ledgerHead,
      length: journal.ledgerLength,
    });
    expect(journal.entries(0, 4).map(({ fact }) => fact)).toEqual([0, 1, 2, 3].map((index) => saidFact(`m-${index}`)));
    expect(journal.entries(2, 3)[0]).toMatchObject({ seq: 2, at: '2026-01-01T00:00:00.002Z' });
  });

  test('tells the time of its newest entry, so that none is recorded before it', () => {
    expect(new Journal(EMPTY_JOURNAL).lastAt).toBe(0);
    expect(filled(4).lastAt).toBe(START + 3);
    const next = new Journal(filled(4).head(segment));
    expect(next.lastAt).toBe(0);
    const since = new Journal(filled(4).head(segment, 2));
    expect(since.lastAt).toBe(START + 3);
  });

  test('keeps messages in order, under a digest of all of them', () => {
    const journal = new Journal(EMPTY_JOURNAL);
    for (const message of conversation()) journal.append(message);
    expect(journal.messages(0, journal.transcriptLength)).toEqual(conversation());
    expect(journal.transcriptDigest).toBe(conversation().reduce(extendDigest, EMPTY_DIGEST));
  });

  test('INV-D3: cut at any point into two executions, it is the same chain and the same conversation', () => {
    forAll(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 0, max: 8 }), (before, after) => {
      const first = filled(before);
      const second = new Journal(first.head(segment));
      for (let index = before; index < before + after; index += 1) {
        second.record(START + index, saidFact(`m-${index}`));
        second.append({ role: 'user', text: `message ${index}` });
      }
      const whole = filled(before + after);
      expect(second.head(segment)).toEqual(whole.head(segment));
      expect([...first.entries(0, 99), ...second.entries(0, 99)]).toEqual(whole.entries(0, 99));
      expect([...first.messages(0, 99), ...second.messages(0, 99)]).toEqual(whole.messages(0, 99));
      expect(second.segment).toEqual(segment);
    });
  });

  test('a range gives what this execution holds of it, whatever range is asked for', () => {
    const index = fc.integer({ min: -3, max: 12 });
    forAll(fc.integer({ min: 0, max: 4 }), index, index, (before, from, to) => {
      const journal = filled(5, new Journal(filled(before).head(segment)));
      const held = Array.from({ length: 5 }, (_, position) => position + before);
      const wanted = held.filter((position) => position >= from && position < to);
      expect(journal.entries(from, to).map(({ seq }) => seq)).toEqual(wanted);
      expect(journal.messages(from, to)).toHaveLength(wanted.length);
    });
  });
});

describe('transcript digest', () => {
  const texts = fc.array(fc.string({ maxLength: 4 }), { maxLength: 6 });
  const digestOf = (given: readonly string[]): string =>
    given.map((text): Message => ({ role: 'user', text })).reduce(extendDigest, EMPTY_DIGEST);

  test('is equal for equal conversations and for no others', () => {
    forAll(
      texts,
      texts,
      (one, other) => (digestOf(one) === digestOf(other)) === (JSON.stringify(one) === JSON.stringify(other)),
    );
  });

  test('tells roles apart, so that a user message cannot pass for a system one', () => {
    expect(extendDigest(EMPTY_DIGEST, { role: 'user', text: 'x' })).not.toBe(
      extendDigest(EMPTY_DIGEST, { role: 'system', text: 'x' }),
    );
  });
});

// The hash chain: what was recorded cannot be changed afterwards without being seen.

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
    forAll(chain, (entries) => {
      expect(verifyChain(entries)).toEqual({
        kind: 'intact',
        head: at(entries, entries.length - 1).hash,
        length: entries.length,
      });
    });
    expect(verifyChain([])).toEqual({ kind: 'intact', head: GENESIS, length: 0 });
  });

  test('is the same after a way through JSON', () => {
    forAll(chain, (entries) => verifyChain(JSON.parse(JSON.stringify(entries)) as LedgerEntry[]).kind === 'intact');
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
    forAll(chainAndPlace, ([entries, place]) => {
      expect(brokenAt(entries.with(place, change(at(entries, place))))).toBe(place);
    });
  });

  test('an entry that is rewritten with a hash of its own breaks the one after it', () => {
    forAll(chainAndPlace, ([entries, place]) => {
      const { seq, prev } = at(entries, place);
      expect(brokenAt(entries.with(place, sealEntry(seq, prev, START, saidFact('forged'))))).toBe(place + 1);
    });
  });

  test('a dropped entry shows at its place', () => {
    forAll(chainAndPlace, ([entries, place]) => expect(brokenAt(entries.toSpliced(place, 1))).toBe(place));
  });

  test('a cut tail shows in length and head, which the run tells apart from the entries', () => {
    forAll(chain, (entries) => {
      const cut = verifyChain(entries.slice(0, -1));
      expect(cut).not.toEqual(verifyChain(entries));
    });
  });

  test('swapped entries show at the first of them, also when their numbers are swapped back', () => {
    forAll(chainAndPlace, ([entries, place]) => {
      const [one, other] = [at(entries, place), at(entries, place + 1)];
      expect(brokenAt(entries.with(place, other).with(place + 1, one))).toBe(place);
      const renumbered = entries.with(place, { ...other, seq: one.seq }).with(place + 1, { ...one, seq: other.seq });
      expect(brokenAt(renumbered)).toBe(place);
    });
  });

  test('an inserted entry shows, also when it is sealed with the right number and previous hash', () => {
    forAll(chainAndPlace, ([entries, place]) => {
      const { seq, prev } = at(entries, place);
      const forged = sealEntry(seq, prev, START, saidFact('forged'));
      expect(brokenAt(entries.toSpliced(place, 0, forged))).toBe(place + 1);
      const renumbered = entries.slice(place).map((entry) => ({ ...entry, seq: entry.seq + 1 }));
      expect(brokenAt([...entries.slice(0, place), forged, ...renumbered])).toBe(place + 1);
    });
  });

  test('a stretch verifies on what was before it, and on nothing else', () => {
    forAll(chainAndPlace, ([entries, place]) => {
      const stretch = entries.slice(place);
      const { prev } = at(entries, place);
      expect(verifyChain(stretch, place, prev)).toEqual(verifyChain(entries));
      expect(verifyChain(stretch, place + 1, prev)).toMatchObject({ kind: 'broken', seq: place + 1 });
      expect(verifyChain(stretch, place, 'f'.repeat(64))).toMatchObject({ kind: 'broken', seq: place });
    });
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

/** Facts that say where the conversation stands: each message is bound by a hash, and stands in none (J). */
describe('facts', () => {
  const MESSAGE = { role: 'user', text: 'Tidy the notes.' } as const;

  test.each<LedgerFact>([
    { kind: 'turn.proposed', turn: 1, calls: 0, usage: { inputTokens: 1, outputTokens: 1 } },
    { kind: 'run.rolled', turn: 1, because: 'nudge' },
    { kind: 'run.ended', status: 'completed' },
  ])('$kind names all messages before it', (fact) => {
    const journal = new Journal(EMPTY_JOURNAL);
    journal.append(MESSAGE);
    const said = { length: 1, digest: extendDigest(EMPTY_JOURNAL.transcriptDigest, MESSAGE) };
    expect(marked(fact, journal)).toEqual({ ...fact, conversation: said });
  });

  test('others are left as they are', () => {
    expect(marked(saidFact(), new Journal(EMPTY_JOURNAL))).toEqual(saidFact());
  });
});

/** Entries that come while a segment is stored go with the run (INV-D3). */
test.each([0, 2, 5])(
  'since: of five entries, %s stored: the next execution holds the rest, and goes on in one chain',
  (stored) => {
    const before = filled(5);
    const head = before.head(segment, stored);
    const next = new Journal(JSON.parse(JSON.stringify(head)) as typeof head);
    expect(next.entries(0, 5)).toEqual(before.entries(stored, 5));
    expect([next.ledgerFrom, next.ledgerLength, next.ledgerHead]).toEqual([stored, 5, before.ledgerHead]);
    next.record(START + 5, saidFact('m-5'));
    expect(verifyChain([...before.entries(0, stored), ...next.entries(0, 6)])).toMatchObject({
      kind: 'intact',
      length: 6,
    });
  },
);

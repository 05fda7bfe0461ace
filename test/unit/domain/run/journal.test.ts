/** What one execution holds of transcript and ledger (INV-D2, INV-D3). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import {
  EMPTY_DIGEST,
  EMPTY_JOURNAL,
  extendDigest,
  GENESIS,
  Journal,
  verifyChain,
} from '../../../../domain/run/journal.ts';
import { saidFact } from '../../../support/builders/ledger.ts';
import { conversation } from '../../../support/builders/message.ts';
import { START } from '../../../support/builders/run.ts';

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

  test('keeps messages in order, under a digest of all of them', () => {
    const journal = new Journal(EMPTY_JOURNAL);
    for (const message of conversation()) journal.append(message);
    expect(journal.messages(0, journal.transcriptLength)).toEqual(conversation());
    expect(journal.transcriptDigest).toBe(conversation().reduce(extendDigest, EMPTY_DIGEST));
  });

  test('INV-D3: cut at any point into two executions, it is the same chain and the same conversation', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 0, max: 8 }), (before, after) => {
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
      }),
    );
  });

  test('a range gives what this execution holds of it, whatever range is asked for', () => {
    const index = fc.integer({ min: -3, max: 12 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), index, index, (before, from, to) => {
        const journal = filled(5, new Journal(filled(before).head(segment)));
        const held = Array.from({ length: 5 }, (_, position) => position + before);
        const wanted = held.filter((position) => position >= from && position < to);
        expect(journal.entries(from, to).map(({ seq }) => seq)).toEqual(wanted);
        expect(journal.messages(from, to)).toHaveLength(wanted.length);
      }),
    );
  });
});

describe('transcript digest', () => {
  const texts = fc.array(fc.string({ maxLength: 4 }), { maxLength: 6 });
  const digestOf = (given: readonly string[]): string =>
    given.map((text): Message => ({ role: 'user', text })).reduce(extendDigest, EMPTY_DIGEST);

  test('is equal for equal conversations and for no others', () => {
    fc.assert(
      fc.property(
        texts,
        texts,
        (one, other) => (digestOf(one) === digestOf(other)) === (JSON.stringify(one) === JSON.stringify(other)),
      ),
    );
  });

  test('tells roles apart, so that a user message cannot pass for a system one', () => {
    expect(extendDigest(EMPTY_DIGEST, { role: 'user', text: 'x' })).not.toBe(
      extendDigest(EMPTY_DIGEST, { role: 'system', text: 'x' }),
    );
  });
});

/** Facts that say where the conversation stands: each message is bound by a hash, and stands in none (J). */
import { expect, test } from '@jest/globals';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { EMPTY_JOURNAL, extendDigest, Journal, marked } from '../../../../domain/run/journal.ts';
import { saidFact } from '../../../support/builders/ledger.ts';

const MESSAGE = { role: 'user', text: 'Tidy the notes.' } as const;

test.each<LedgerFact>([
  { kind: 'turn.proposed', turn: 1, calls: 0, usage: { inputTokens: 1, outputTokens: 1 } },
  { kind: 'run.rolled', turn: 1, because: 'nudge' },
  { kind: 'run.ended', status: 'completed' },
])('$kind names all messages before it', (fact) => {
  const journal = new Journal(EMPTY_JOURNAL);
  journal.append(MESSAGE);
  const conversation = { length: 1, digest: extendDigest(EMPTY_JOURNAL.transcriptDigest, MESSAGE) };
  expect(marked(fact, journal)).toEqual({ ...fact, conversation });
});

test('others are left as they are', () => {
  expect(marked(saidFact(), new Journal(EMPTY_JOURNAL))).toEqual(saidFact());
});

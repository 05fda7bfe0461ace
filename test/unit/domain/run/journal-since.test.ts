/** Entries that come while a segment is stored go with the run (INV-D3). */
import { expect, test } from '@jest/globals';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import { EMPTY_JOURNAL, Journal, verifyChain } from '../../../../domain/run/journal.ts';
import { saidFact } from '../../../support/builders/ledger.ts';
import { START } from '../../../support/builders/run.ts';

const segment: ArtifactRef = { sha256: 'd'.repeat(64), bytes: 10, contentType: 'application/json' };

function filled(count: number): Journal {
  const journal = new Journal(EMPTY_JOURNAL);
  for (let index = 0; index < count; index += 1) journal.record(START + index, saidFact(`m-${index}`));
  return journal;
}

test.each([0, 2, 5])(
  'of five entries, %s stored: the next execution holds the rest, and goes on in one chain',
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

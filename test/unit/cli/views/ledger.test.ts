import { expect, test } from '@jest/globals';
import { entryText } from '../../../../cli/views/ledger.ts';
import type { LedgerEntry } from '../../../../contracts/schemas/ledger.ts';
import { plain } from '../../../../cli/session/terminal.ts';

test.each(['run.frozen', 'toString'])(
  'a fact of a later build (%s) is written like others, and stops no list',
  (kind) => {
    // Sound: a page of a live run is not parsed, so the type does not hold for what a later worker wrote.
    const entry = { seq: 7, at: '2026-01-01T00:00:00.000Z', fact: { kind, callId: 't1.c0' } } as unknown as LedgerEntry;
    expect(entryText(entry, plain)).toBe(`   7  2026-01-01T00:00:00.000Z  ${kind.padEnd(17)}  t1.c0`);
  },
);

import type { LedgerEntry, LedgerFact } from '../../../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry } from '../../../domain/run/journal.ts';
import { START } from './run.ts';

export function saidFact(messageId = 'm-1'): LedgerFact {
  return { kind: 'said', messageId, from: 'ann', textHash: 'c'.repeat(64) };
}

/** Makes a valid chain of these facts, one second apart. */
export function ledgerOf(facts: readonly LedgerFact[]): LedgerEntry[] {
  const entries: LedgerEntry[] = [];
  for (const [seq, fact] of facts.entries()) {
    entries.push(sealEntry(seq, entries.at(-1)?.hash ?? GENESIS, START + seq * 1_000, fact));
  }
  return entries;
}

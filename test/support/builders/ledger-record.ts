import type { LedgerEntry, LedgerHead, LedgerRecord } from '../../../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry } from '../../../domain/run/journal.ts';
import { saidFact } from './ledger.ts';
import { START } from './run.ts';

/**
 * Makes a valid chain of this many entries.
 * @param what tells two chains apart
 * @param before the entries that the chain continues
 */
export function chainOf(length: number, what = 'm', before: readonly LedgerEntry[] = []): LedgerEntry[] {
  const entries = [...before];
  while (entries.length < length) {
    const seq = entries.length;
    entries.push(sealEntry(seq, entries.at(-1)?.hash ?? GENESIS, START + seq * 1_000, saidFact(`${what}-${seq}`)));
  }
  return entries;
}

export const STREAM = { namespace: 'default', workflowId: 'run-1', firstRunId: '3f0c-first', runId: '3f0c-first' };

/** @param signedHead has the right form; its signature belongs to nobody */
export function recordOf(
  entries: readonly LedgerEntry[],
  over: Partial<LedgerHead> = {},
  signedHead = 'e30.e30.AAAA',
): LedgerRecord {
  const [first, last] = [entries[0], entries.at(-1)];
  if (first === undefined || last === undefined) throw new Error('a record has entries');
  const head = { ...STREAM, from: first.seq, to: last.seq + 1, previousHead: first.prev, head: last.hash, ...over };
  return { head, signedHead, entries: [...entries] };
}

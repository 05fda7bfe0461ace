/**
 * The hash chain of a run's ledger.
 *
 * 1. An entry's hash covers its sequence number, time, fact and the hash before it: changing, dropping or swapping any
 *    entry breaks every later hash.
 */
import type { LedgerEntry, LedgerFact } from '../contracts/schemas/ledger.ts';
import { hashOf } from './canonical.ts';

/** `prev` of the first entry. */
export const GENESIS = '0'.repeat(64);

/** @param at epoch ms */
export function sealEntry(seq: number, prev: string, at: number, fact: LedgerFact): LedgerEntry {
  const body = { seq, at: new Date(at).toISOString(), prev, fact };
  return { ...body, hash: hashOf(body) };
}

export type LedgerCheck =
  | { readonly kind: 'intact'; readonly head: string; readonly length: number }
  | { readonly kind: 'broken'; readonly seq: number; readonly reason: string };

/** Checks a stretch of a chain that follows `prev` at number `from`. */
export function verifyChain(entries: readonly LedgerEntry[], from = 0, prev = GENESIS): LedgerCheck {
  let head = prev;
  for (const [index, entry] of entries.entries()) {
    const seq = from + index;
    if (entry.seq !== seq) return { kind: 'broken', seq, reason: `expected number ${seq}, found ${entry.seq}` };
    if (entry.prev !== head) return { kind: 'broken', seq, reason: 'does not follow the entry before it' };
    const { hash, ...body } = entry;
    if (hashOf(body) !== hash) return { kind: 'broken', seq, reason: 'was changed after it was written' };
    head = hash;
  }
  return { kind: 'intact', head, length: from + entries.length };
}

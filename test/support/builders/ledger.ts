import type { LedgerEntry, LedgerFact } from '../../../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry } from '../../../domain/run/journal.ts';
import { approverRule } from './judgement.ts';
import { START } from './run.ts';

type FactOf<K extends LedgerFact['kind']> = Extract<LedgerFact, { readonly kind: K }>;

const HASH = 'a'.repeat(64);

export function saidFact(messageId = 'm-1'): LedgerFact {
  return { kind: 'said', messageId, from: 'ann', textHash: 'c'.repeat(64) };
}

/** Policy has a call of `bank/pay` asked about. */
export function verdictFact(over: Partial<FactOf<'verdict'>> = {}): FactOf<'verdict'> {
  const hashes = { argumentsHash: HASH, policyVersion: HASH };
  const call = { callId: 't1.c0', server: 'bank', tool: 'pay' };
  return { kind: 'verdict', verdict: 'ask', rules: [], ...call, ...hashes, ...over };
}

export function openedFact(over: Partial<FactOf<'request.opened'>> = {}): FactOf<'request.opened'> {
  const request = { callId: 't1.c0', generation: 1, digest: HASH };
  const deadline = '2026-01-01T01:00:00.000Z';
  return { kind: 'request.opened', ...request, approvers: approverRule(), deadline, ...over };
}

/** Ann has approved the call. */
export function acceptedFact(over: Partial<FactOf<'decision.accepted'>> = {}): FactOf<'decision.accepted'> {
  const request = { callId: 't1.c0', generation: 1, digest: HASH, runId: 'r' };
  const approver = { id: 'ann', groups: [] };
  return { kind: 'decision.accepted', decision: 'approve', decisionId: 'd-1', ...request, approver, ...over };
}

/** Makes a valid chain of these facts, one second apart. */
export function ledgerOf(facts: readonly LedgerFact[]): LedgerEntry[] {
  const entries: LedgerEntry[] = [];
  for (const [seq, fact] of facts.entries()) {
    entries.push(sealEntry(seq, entries.at(-1)?.hash ?? GENESIS, START + seq * 1_000, fact));
  }
  return entries;
}

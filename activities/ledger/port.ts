/**
 * A ledger sink keeps ledgers outside Temporal: longer than its retention, and out of reach of those who may write to
 * it.
 *
 * 1. `deliver` returns only when every entry of the record is durable in the sink.
 * 2. Entries that the sink has already add nothing: the same record twice, an overlap, two workers at once.
 * 3. A gap, or another entry in the place of a known one, is refused with `LEDGER_CONFLICT`, and nothing is kept of the
 *    record. Only a run that a reset made (`head.resetOf`) may continue from an earlier entry; both branches are kept.
 * 4. An unreachable sink is `LEDGER_UNAVAILABLE`. Both codes are retried: the run waits and loses nothing.
 * 5. No error quotes the record: entries hold comments of people.
 */
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { LedgerRecord } from '../../contracts/schemas/ledger.ts';

export interface LedgerSink {
  deliver(record: LedgerRecord): Promise<void>;
}

/** @param reason continues "Entry 7 of the ledger of run-1" */
export function conflict({ head: { workflowId } }: LedgerRecord, seq: number, reason: string): CountersignError {
  return new CountersignError(
    'LEDGER_CONFLICT',
    `Entry ${seq} of the ledger of ${workflowId} ${reason}. The run waits and its record is kept as it is: compare the two with countersign verify-ledger.`,
    { runId: workflowId, seq },
  );
}

export function unavailable(
  { head: { workflowId } }: LedgerRecord,
  reason: string,
  facts: ErrorFacts = {},
  cause?: unknown,
): CountersignError {
  return new CountersignError(
    'LEDGER_UNAVAILABLE',
    `The ledger of ${workflowId} was not stored: ${reason}. It is tried again until it is.`,
    { runId: workflowId, ...facts },
    { cause },
  );
}

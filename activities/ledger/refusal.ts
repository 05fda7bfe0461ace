/** How a sink refuses a record. Never with what it was given: comments of people stand in entries. */
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { LedgerRecord } from '../../contracts/schemas/ledger-record.ts';

/** @param reason goes on after "Entry 7 of the ledger of run-1" */
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

/**
 * Where ledgers are kept beside Temporal: longer than its retention, and out of reach of whoever may write to it.
 *
 * 1. `deliver` returns only when every entry of the record is durable in the sink.
 * 2. What the sink has already adds nothing: the same record twice, an overlap, two workers at once.
 * 3. A gap, or another entry in the place of one it has, is refused with `LEDGER_CONFLICT`, and nothing is kept of the record.
 *    Only a run that a reset made (`head.resetOf`) may continue from an earlier entry; both branches are kept.
 * 4. A sink that is away is `LEDGER_UNAVAILABLE`. Both codes are tried again: the run waits and loses nothing.
 */
import type { LedgerRecord } from '../../contracts/schemas/ledger-record.ts';

export interface LedgerSink {
  deliver(record: LedgerRecord): Promise<void>;
}

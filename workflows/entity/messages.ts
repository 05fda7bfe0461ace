/** Definitions of the messages that runs and catalogs both take, under the names that `contracts/names.ts` fixes. */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import { QUERIES, SIGNALS } from '../../contracts/names.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';

export const nudgeSignal = defineSignal(SIGNALS.nudge);

export const transcriptQuery = defineQuery<TranscriptPage, [unknown, unknown]>(QUERIES.transcript);

export const ledgerQuery = defineQuery<LedgerPage, [unknown, unknown]>(QUERIES.ledger);

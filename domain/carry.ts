/**
 * What a run hands to its next execution at continue-as-new.
 *
 * 1. Only what cannot be read elsewhere: heads and references, open calls, remembered answers.
 */
import type { PreparedRun, ToolsetRef } from '../contracts/activities.ts';
import type { JournalHead } from './journal.ts';
import type { Run } from './run.ts';

/** Raised when a carried shape changes; an execution refuses a version it does not know. */
export const CARRY_VERSION = 1;

export interface Carry {
  readonly version: typeof CARRY_VERSION;
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly toolset: readonly ToolsetRef[];
  readonly run: Run;
  readonly journal: JournalHead;
  /** Temporal run ids of earlier executions, see `chain.ts`. */
  readonly earlier: readonly string[];
  /** Epoch ms; in trust mode `signed`. */
  readonly trustReadAt?: number;
}

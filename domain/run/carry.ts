/**
 * An execution hands this state to the next one at continue-as-new, for the reasons named here.
 *
 * The reasons apply to runs and catalogs alike. `workflows/run/roll.ts` does the handing over.
 *
 * 1. A run carries only what cannot be read elsewhere: heads and references, open calls, remembered answers.
 */
import type { PreparedRun } from '../../contracts/wire/run.ts';
import { isOnTask } from '../legacy-2025/tasks.ts';
import type { CallState } from '../state/call.ts';
import type { JournalHead } from './journal.ts';
import type { Run } from '../state/run.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';

/** Version of a carry without pauses. A changed shape raises the version; an execution refuses an unknown version. */
export const CARRY_VERSION = 1;
/**
 * Version of a carry that holds requests for something other than consent. An older build would take an answer to such
 * a request for an approval.
 */
export const PAUSED_CARRY_VERSION = 2;
/** Version of a carry that holds tasks of servers. An older build would end such calls before any marker stops it. */
export const TASK_CARRY_VERSION = 3;

export const CARRY_VERSIONS = [CARRY_VERSION, PAUSED_CARRY_VERSION, TASK_CARRY_VERSION] as const;

export interface Carry {
  readonly version: (typeof CARRY_VERSIONS)[number];
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly toolset: readonly ToolsetRef[];
  readonly run: Run;
  readonly journal: JournalHead;
  /** Temporal run ids of earlier executions, see `domain/state/run.ts`. */
  readonly earlier: readonly string[];
  /** Time of the last read of the trust set, epoch ms; only in trust mode `signed`. */
  readonly trustReadAt?: number;
}

export function carryVersionOf({ calls, grants }: Run): Carry['version'] {
  if (calls.some(isOnTask)) return TASK_CARRY_VERSION;
  return grants !== undefined || calls.some(wasPaused) ? PAUSED_CARRY_VERSION : CARRY_VERSION;
}

/** True if a call was ever paused. A settled call has no open question and does not count. */
function wasPaused(state: CallState): boolean {
  if (state.status === 'settled' || state.status === 'proposed') return false;
  const { asked, retry, input, authorized } = state;
  const about = 'request' in state ? state.request?.about : undefined;
  return [about, asked, retry, input, authorized].some((each) => each !== undefined);
}

// An execution hands over for one of these reasons, within these bounds.

/**
 * Temporal ends a run at 2,000 updates and suggests a new one at 1,800; the lower bound leaves room for those under
 * way.
 */
export const MOST_UPDATES = 1_500;

/** Everything that an execution has used up so far. */
export interface Taken {
  /** Set if a `nudge` signal asked for a new execution. */
  readonly nudged: boolean;
  readonly updates: number;
  /** Turns of this execution and their bound; absent for a catalog, and before the run is prepared. */
  readonly turns?: { readonly had: number; readonly most: number };
  /** Temporal's own suggestion, because of the length of the history. */
  readonly suggested: boolean;
}

export type RollReason = 'nudge' | 'updates' | 'turns' | 'history';

export function rollReason({ nudged, updates, turns, suggested }: Taken): RollReason | undefined {
  if (nudged) return 'nudge';
  if (updates >= MOST_UPDATES) return 'updates';
  if (turns !== undefined && turns.had >= turns.most) return 'turns';
  return suggested ? 'history' : undefined;
}

/**
 * What a run hands to its next execution at continue-as-new.
 *
 * 1. Only what cannot be read elsewhere: heads and references, open calls, remembered answers.
 */
import type { PreparedRun } from '../../contracts/wire/run.ts';
import { isOnTask } from '../legacy-2025/tasks.ts';
import type { CallState } from '../state/call.ts';
import type { JournalHead } from './journal.ts';
import type { Run } from '../state/run.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';

/** Raised when a carried shape changes; an execution refuses a version it does not know. */
export const CARRY_VERSION = 1;
/** With requests about something else than consent: a build that does not know them would take an answer to one for an approval. */
export const PAUSED_CARRY_VERSION = 2;
/** With tasks of servers: a build that knows of the former and not of these would end them, before any marker stops it. */
export const TASK_CARRY_VERSION = 3;

export const CARRY_VERSIONS = [CARRY_VERSION, PAUSED_CARRY_VERSION, TASK_CARRY_VERSION] as const;

export interface Carry {
  readonly version: (typeof CARRY_VERSIONS)[number];
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly toolset: readonly ToolsetRef[];
  readonly run: Run;
  readonly journal: JournalHead;
  /** Temporal run ids of earlier executions, see `domain/state/chain.ts`. */
  readonly earlier: readonly string[];
  /** Epoch ms; in trust mode `signed`. */
  readonly trustReadAt?: number;
}

export function carryVersionOf({ calls, grants }: Run): Carry['version'] {
  if (calls.some(isOnTask)) return TASK_CARRY_VERSION;
  return grants !== undefined || calls.some(wasPaused) ? PAUSED_CARRY_VERSION : CARRY_VERSION;
}

/** Of a call that has ended nothing is asked any more. */
function wasPaused(state: CallState): boolean {
  if (state.status === 'settled' || state.status === 'proposed') return false;
  const { asked, retry, input, authorized } = state;
  const about = 'request' in state ? state.request?.about : undefined;
  return [about, asked, retry, input, authorized].some((each) => each !== undefined);
}

// When an execution of a run or a catalog hands over to the next one.
//
// Pure. Owns the reasons and their bounds. Does not own how it is done (`workflows/run/roll.ts`).

/** Temporal ends a run at 2,000 updates and suggests a new one at 1,800; earlier leaves room for those under way. */
export const MOST_UPDATES = 1_500;

/** What an execution has taken by now. */
export interface Taken {
  /** Somebody asked for it. */
  readonly nudged: boolean;
  readonly updates: number;
  /** None for a catalog, or before the run is prepared. */
  readonly turns?: { readonly had: number; readonly most: number };
  /** By Temporal, for the length of the history. */
  readonly suggested: boolean;
}

export type RollReason = 'nudge' | 'updates' | 'turns' | 'history';

export function rollReason({ nudged, updates, turns, suggested }: Taken): RollReason | undefined {
  if (nudged) return 'nudge';
  if (updates >= MOST_UPDATES) return 'updates';
  if (turns !== undefined && turns.had >= turns.most) return 'turns';
  return suggested ? 'history' : undefined;
}

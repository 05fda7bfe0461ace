/**
 * When an execution of a run or a catalog hands over to the next one.
 *
 * Pure. Owns the reasons and their bounds. Does not own how it is done (`workflows/roll.ts`).
 */

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

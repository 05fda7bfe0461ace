/** What became of the earlier calls of a run, counted by tool. */
import type { Outcome } from './call.ts';

/** Outcome kinds, and `open` for calls of the same turn. */
export type Counted = Outcome['kind'] | 'open';

export interface Tally {
  /** By `server/tool`; kinds that never were are left out. */
  readonly tools: Readonly<Record<string, Readonly<Partial<Record<Counted, number>>>>>;
  /** Calls of tools that have no place in `tools`: what is asked of one that is not there cannot be answered. */
  readonly beyond?: number;
}

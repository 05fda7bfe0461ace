/** What became of the earlier calls of a run, counted by tool. */
import type { Outcome } from './call.ts';

/** Outcome kinds, and `open` for calls of the same turn. */
export type Counted = Outcome['kind'] | 'open';

/** Each once; one that is left out does not compile. */
const EACH: Readonly<Record<Counted, true>> = {
  succeeded: true,
  failed: true,
  denied: true,
  rejected: true,
  expired: true,
  cancelled: true,
  unknown: true,
  answered: true,
  open: true,
};
// Sound: the record has these keys and no others.
export const COUNTED = Object.keys(EACH) as readonly Counted[];

export interface Tally {
  /** By `server/tool`; kinds that never were are left out. */
  readonly tools: Readonly<Record<string, Readonly<Partial<Record<Counted, number>>>>>;
  /** Calls of tools that have no place in `tools`: what is asked of one that is not there cannot be answered. */
  readonly beyond?: number;
}

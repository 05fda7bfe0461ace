/** Our own ids are branded strings, so that one cannot be passed in place of another. */

declare const brand: unique symbol;

/** `t<turn>.c<index>`: deterministic, unique in a run. The provider's id is kept beside it and never used as a key. */
export type CallId = string & { readonly [brand]: 'CallId' };

/** The id of the call at `index` (from 0) of turn `turn` (from 1). */
export function callIdOf(turn: number, index: number): CallId {
  // Sound: this is the only place that makes call ids.
  return `t${turn}.c${index}` as CallId;
}

/** Returns the turn that proposed a call, read from its id; 0 for an id that is not ours. */
export function turnOf(callId: string): number {
  return Number(/^t(\d{1,9})\.c\d+$/.exec(callId)?.[1] ?? 0);
}

export function isListing(callId: string): boolean {
  return callId.startsWith('t0.');
}

/** Under which id a list of tools stands, where people are asked about it: as a call of turn 0, in which no model proposes any. */
import { type CallId, callIdOf } from '../contracts/ids.ts';

/** @param index of the server among those of the run */
export function listingId(index: number): CallId {
  return callIdOf(0, index);
}

export function isListing(callId: string): boolean {
  return callId.startsWith('t0.');
}

/**
 * How often a call is sent, and how long it waits in between.
 *
 * Pure. Does not own which endings let it be sent again (`workflows/settle-call.ts`).
 */

/** Sends of one call, the first included. */
const MOST_ATTEMPTS = 5;
const FIRST_WAIT_MS = 1_000;
const LAST_WAIT_MS = 60_000;

/** @param attempts sends so far */
export function mayTryAgain(attempts: number): boolean {
  return attempts < MOST_ATTEMPTS;
}

/** @param attempts sends so far @param retryAfterMs what the server wants at least */
export function waitBeforeNext(attempts: number, retryAfterMs = 0): number {
  return Math.max(Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), LAST_WAIT_MS), retryAfterMs);
}

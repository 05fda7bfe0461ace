/**
 * A breaker: after some failures in a row nothing is sent for a while, then one call tries.
 *
 * Pure. Owns when it opens, lets one through, and closes. Does not own what a failure is (`activities/tools/ending.ts`).
 *
 * 1. Open, nothing passes; half-open, one call at a time: its end alone decides. One that takes longer than the breaker stays open
 *    does not keep the others: another may try, and the first that ends decides.
 * 2. Calls that began before it opened change nothing while it is open: they tell of the past.
 */

/** `withinMs`: older failures are forgotten. */
export interface BreakerRule {
  readonly failures: number;
  readonly withinMs: number;
  readonly openMs: number;
}

/** Times are epoch ms. */
export type Breaker =
  /** `failures`: times of the failures since the last success, oldest first, no more than the rule counts. */
  | { readonly state: 'closed'; readonly failures: readonly number[] }
  | { readonly state: 'open'; readonly until: number }
  /** `since`: when the call that tries was let through. */
  | { readonly state: 'half-open'; readonly since: number };

/** `neutral`: nothing is known of the server, as where the call was cancelled. */
export type Health = 'up' | 'down' | 'neutral';

/** While one call tries, the others look again soon: it may end at once. */
const LOOK_AGAIN_MS = 1_000;

export const CLOSED: Breaker = { state: 'closed', failures: [] };

/** How long the next call must wait: 0 where it may go now. @param now epoch ms */
export function mustWait(breaker: Breaker, { openMs }: BreakerRule, now: number): number {
  if (breaker.state === 'closed') return 0;
  // A clock that was set back must not hold calls for longer than the rule.
  if (breaker.state === 'open') return Math.min(openMs, Math.max(0, breaker.until - now));
  // A call may take an hour, and a clock may be set back.
  const tried = now - breaker.since;
  return tried < 0 || tried >= openMs ? 0 : Math.min(openMs - tried, LOOK_AGAIN_MS);
}

/** A call passes. Asked only where `mustWait` was 0. @returns whether it is the one that tries */
export function passed(breaker: Breaker, now: number): { readonly breaker: Breaker; readonly tries: boolean } {
  if (breaker.state === 'closed') return { breaker, tries: false };
  return { breaker: { state: 'half-open', since: now }, tries: true };
}

/** A call has ended. @param tries what `passed` said of it */
export function ended(breaker: Breaker, rule: BreakerRule, health: Health, tries: boolean, now: number): Breaker {
  if (breaker.state === 'half-open' && tries) {
    if (health === 'up') return CLOSED;
    // Nothing was learned: the next call tries, at once.
    return { state: 'open', until: health === 'down' ? now + rule.openMs : now };
  }
  if (breaker.state !== 'closed' || health === 'neutral') return breaker;
  if (health === 'up') return breaker.failures.length === 0 ? breaker : CLOSED;
  const failures = [...breaker.failures, now].filter((at) => now - at < rule.withinMs).slice(-rule.failures);
  return failures.length >= rule.failures ? { state: 'open', until: now + rule.openMs } : { state: 'closed', failures };
}

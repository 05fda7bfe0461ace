/**
 * A breaker: after some failures in a row nothing is sent for a while, then one call tries.
 *
 * Pure. Owns when it opens, lets one through, and closes. Does not own what a failure is (`activities/mcp/classify-failure.ts`).
 *
 * 1. Open, nothing passes; half-open, one call at a time: its end alone decides. One that takes longer than the breaker stays open
 *    does not keep the others: another may try, and the first that ends decides.
 * 2. Calls that began before it opened change nothing while it is open: they tell of the past.
 * 3. A tenant can make calls fail, by tools that are slow or arguments that break them. So the word of one tenant holds back that
 *    tenant: a call of another one tries at once, and only where it fails, too, everybody waits.
 */

/** `withinMs`: older failures are forgotten. */
export interface BreakerRule {
  readonly failures: number;
  readonly withinMs: number;
  readonly openMs: number;
}

interface Failure {
  readonly at: number;
  readonly tenant: string;
}

/** Times are epoch ms. `by`: the tenant whose calls alone have failed; absent where those of several have. */
export type Breaker =
  /** `failures`: those since the last success, oldest first, no more than the rule counts. */
  | { readonly state: 'closed'; readonly failures: readonly Failure[] }
  | { readonly state: 'open'; readonly until: number; readonly by?: string }
  /** `since`: when the call that tries was let through; `tenant`: whose it is. */
  | { readonly state: 'half-open'; readonly since: number; readonly tenant: string; readonly by?: string };

/** `neutral`: nothing is known of the server, as where the call was cancelled. */
export type Health = 'up' | 'down' | 'neutral';

/** While one call tries, the others look again soon: it may end at once. */
const LOOK_AGAIN_MS = 1_000;

export const CLOSED: Breaker = { state: 'closed', failures: [] };

/** How long the next call of a tenant must wait: 0 where it may go now. @param now epoch ms */
export function mustWait(breaker: Breaker, { openMs }: BreakerRule, tenant: string, now: number): number {
  if (breaker.state === 'closed') return 0;
  const { by } = breaker;
  const isForeign = by !== undefined && by !== tenant;
  if (breaker.state === 'open') {
    if (isForeign) return 0;
    // A clock that was set back must not hold calls for longer than the rule.
    return Math.min(openMs, Math.max(0, breaker.until - now));
  }
  // Nor does the tenant whose word it is hold others by a call that tries, and takes its time.
  if (isForeign && breaker.tenant === by) return 0;
  // A call may take an hour, and a clock may be set back.
  const tried = now - breaker.since;
  return tried < 0 || tried >= openMs ? 0 : Math.min(openMs - tried, LOOK_AGAIN_MS);
}

/** A call passes. Asked only where `mustWait` was 0. @returns whether it is the one that tries */
export function passed(
  breaker: Breaker,
  tenant: string,
  now: number,
): { readonly breaker: Breaker; readonly tries: boolean } {
  if (breaker.state === 'closed') return { breaker, tries: false };
  return { breaker: { state: 'half-open', since: now, tenant, ...wordOf(breaker.by) }, tries: true };
}

/** A call has ended. @param tries what `passed` said of it */
export function ended(
  breaker: Breaker,
  rule: BreakerRule,
  { tenant, health, tries }: { readonly tenant: string; readonly health: Health; readonly tries: boolean },
  now: number,
): Breaker {
  if (breaker.state === 'half-open' && tries) {
    if (health === 'up') return CLOSED;
    // Nothing was learned: the next call tries, at once.
    if (health === 'neutral') return { state: 'open', until: now, ...wordOf(breaker.by) };
    // Where several had failed, the one that tries speaks for itself: the next of another tenant is to say whether that is all.
    const by = breaker.by === undefined || breaker.by === tenant ? tenant : undefined;
    return { state: 'open', until: now + rule.openMs, ...wordOf(by) };
  }
  if (breaker.state !== 'closed' || health === 'neutral') return breaker;
  if (health === 'up') return breaker.failures.length === 0 ? breaker : CLOSED;
  const failures = [...breaker.failures, { at: now, tenant }]
    .filter(({ at }) => now - at < rule.withinMs)
    .slice(-rule.failures);
  if (failures.length < rule.failures) return { state: 'closed', failures };
  const isOne = failures.every((failure) => failure.tenant === tenant);
  return { state: 'open', until: now + rule.openMs, ...wordOf(isOne ? tenant : undefined) };
}

function wordOf(by: string | undefined): { readonly by?: string } {
  return by === undefined ? {} : { by };
}

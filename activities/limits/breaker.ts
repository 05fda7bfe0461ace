/**
 * A circuit breaker: after some failures in a row nothing is sent for a while, then one call tries.
 *
 * Pure. It owns when the breaker opens, lets one call through, and closes. It does not own what a failure is
 * (`activities/mcp/classify-failure.ts`).
 * 1. No call passes an open breaker. A half-open one lets one call at a time pass, whose end alone decides. If that
 *    call takes longer than `openSeconds`, another may try, and the first that ends decides.
 * 2. Calls that began before the breaker opened change nothing while it is open, because they tell of the past.
 * 3. A tenant can make calls fail, by slow tools or by arguments that break them. Failures of one tenant therefore hold
 *    back that tenant only. A call of another tenant tries at once, and everybody waits only if that fails too.
 */
import { defined } from '../../contracts/defined.ts';
import type { ServerLimits } from '../../contracts/schemas/config.ts';
import type { Health } from '../mcp/port.ts';

/** `failures` in a row open the breaker; ones older than `withinSeconds` are forgotten. */
export type BreakerRule = NonNullable<ServerLimits['breaker']>;

interface Failure {
  readonly at: number;
  readonly tenant: string;
}

/**
 * Times are ms of a clock that only goes forward. `by` is the only tenant whose calls have failed; absent if calls of
 * several have.
 */
export type Breaker =
  /** `failures` are those since the last success, oldest first, no more than the rule counts. */
  | { readonly state: 'closed'; readonly failures: readonly Failure[] }
  | { readonly state: 'open'; readonly until: number; readonly by?: string }
  /** `since` is when the trying call was let through; `tenant` is its tenant. */
  | { readonly state: 'half-open'; readonly since: number; readonly tenant: string; readonly by?: string };

/** While one call tries, the others look again soon: it may end at once. */
const LOOK_AGAIN_MS = 1_000;

export const CLOSED: Breaker = { state: 'closed', failures: [] };

/** Says how long the next call of a tenant must wait, in ms; 0 if it may go now. */
export function mustWait(breaker: Breaker, { openSeconds }: BreakerRule, tenant: string, now: number): number {
  if (breaker.state === 'closed') return 0;
  const { by } = breaker;
  const isForeign = by !== undefined && by !== tenant;
  if (breaker.state === 'open') return isForeign ? 0 : Math.max(0, breaker.until - now);
  // A slow trial call of the tenant that failed does not hold back other tenants either.
  if (isForeign && breaker.tenant === by) return 0;
  // A call may take an hour.
  return Math.max(0, Math.min(breaker.since + openSeconds * 1_000 - now, LOOK_AGAIN_MS));
}

/** Lets a call pass, after `mustWait` returned 0. @returns whether it is the one that tries */
export function passed(
  breaker: Breaker,
  tenant: string,
  now: number,
): { readonly breaker: Breaker; readonly tries: boolean } {
  if (breaker.state === 'closed') return { breaker, tries: false };
  return { breaker: { state: 'half-open', since: now, tenant, ...defined({ by: breaker.by }) }, tries: true };
}

/** Records the end of a call. @param tries as `passed` returned it */
export function ended(
  breaker: Breaker,
  rule: BreakerRule,
  { tenant, health, tries }: { readonly tenant: string; readonly health: Health; readonly tries: boolean },
  now: number,
): Breaker {
  if (breaker.state === 'half-open' && tries) {
    if (health === 'up') return CLOSED;
    // Nothing was learned, so the next call tries at once.
    if (health === 'neutral') return { state: 'open', until: now, ...defined({ by: breaker.by }) };
    // After failures of several tenants, the trying call speaks for its own tenant; the next tenant's call shows
    // whether others fail too.
    const by = breaker.by === undefined || breaker.by === tenant ? tenant : undefined;
    return { state: 'open', until: now + rule.openSeconds * 1_000, ...defined({ by }) };
  }
  if (breaker.state !== 'closed' || health === 'neutral') return breaker;
  if (health === 'up') return breaker.failures.length === 0 ? breaker : CLOSED;
  const failures = [...breaker.failures, { at: now, tenant }]
    .filter(({ at }) => now - at < rule.withinSeconds * 1_000)
    .slice(-rule.failures);
  if (failures.length < rule.failures) return { state: 'closed', failures };
  const isOne = failures.every((failure) => failure.tenant === tenant);
  return { state: 'open', until: now + rule.openSeconds * 1_000, ...defined({ by: isOne ? tenant : undefined }) };
}

/**
 * A throttled call may run, but waits because its server's limits take no more now (docs/adr/0037). Also the waits
 * between attempts. `activities/limits/server-limits.ts` throttles, and `workflows/run/call.ts` waits.
 *
 * 1. Only the result of an activity throttles a call: our own limits, or a server that wants a long time
 *    (`Retry-After`).
 * 2. A throttled dispatch is no attempt, since nothing was sent. Time bounds it instead.
 */
import { defined } from '../../contracts/defined.ts';
import type { HeldCall } from '../../contracts/schemas/call.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import {
  type Change,
  type Dispatched,
  type InFlight,
  move,
  type Moved,
  notSent,
  type Run,
  type Throttled,
} from '../state/run.ts';

type NotSent = Extract<DispatchResult, { kind: 'not-sent' }>;
type PutOff = NotSent & { readonly retryAfterMs: number };
export type Throttling = NotSent & { readonly held: NonNullable<NotSent['held']> };

/** Wait for a result that names no time; every activity of ours names one. */
const DEFAULT_WAIT_MS = 1_000;

export function isThrottling(result: DispatchResult): result is Throttling {
  return result.kind === 'not-sent' && result.held !== undefined;
}

/** Dispatches that may have reached the server since people last let the call leave. */
export function attemptsOf({ attempts, holds }: Dispatched): number {
  return attempts - (holds?.count ?? 0);
}

/** Why a call waits no longer; undefined while it still may. @param now epoch ms */
export function waitedOut({ holds }: Dispatched, { held, message }: Throttling, now: number): string | undefined {
  const { since } = holds ?? {};
  if (since === undefined || now < since + held.atMostSeconds * 1_000) return undefined;
  return `${message} It waited ${Math.round((now - since) / 1_000)} s for its turn and was not sent.`;
}

export function throttledBy(run: Run, callId: string, throttling: Throttling, now: number): Change {
  return move(run, callId, ['in-flight'], (state) => throttled(state, throttling, now));
}

function throttled(state: InFlight, throttling: Throttling, now: number): Moved {
  const { held, message, code, retryAfterMs = DEFAULT_WAIT_MS } = throttling;
  const { by, atMostSeconds } = held;
  const since = state.holds?.since ?? now;
  // The wait ends at the latest when the call is given up.
  const until = Math.max(now + 1, Math.min(now + retryAfterMs, since + atMostSeconds * 1_000));
  const call: Throttled = {
    ...notSent(state),
    status: 'throttled',
    holds: { count: (state.holds?.count ?? 0) + 1, since, by },
    wait: { since, until, by, message },
  };
  // The ledger records the throttling once, however often the call returns unsent for the same limit.
  const facts = state.holds?.by === by ? [] : [{ kind: 'held', callId: state.call.callId, by, code } as const];
  return { call, facts };
}

/** True if the server wants more time than our own waits take: such a call waits as a throttled one. */
export function isPutOff(result: NotSent): result is PutOff {
  return result.retryAfterMs !== undefined && result.retryAfterMs > LAST_WAIT_MS;
}

/**
 * Makes a call wait for as long as its server wants. The attempt stays counted, unlike that of a throttled dispatch,
 * and the wait for a turn begins anew after it.
 * @param now epoch ms
 */
export function putOff(run: Run, callId: string, { code, message, retryAfterMs }: PutOff, now: number): Change {
  return move(run, callId, ['in-flight'], (state) => {
    const { holds, ...sendable } = notSent(state);
    const wait = { since: now, until: now + retryAfterMs, by: 'retry-after', message } as const;
    const counted = defined({ holds: holds && { count: holds.count } });
    return {
      call: { ...sendable, ...counted, status: 'throttled', wait },
      facts: [{ kind: 'held', callId, by: wait.by, code }],
    };
  });
}

export function throttledCalls({ calls }: Run): readonly Throttled[] {
  return calls.filter((state) => state.status === 'throttled');
}

export function shownThrottled({ call, judgement, wait }: Throttled): HeldCall {
  const { server, tool } = judgement.target;
  const { by, message, since, until } = wait;
  return {
    callId: call.callId,
    server,
    tool,
    by,
    because: message,
    since: new Date(since).toISOString(),
    next: new Date(until).toISOString(),
  };
}

// A call has a bounded number of attempts, with growing waits. `workflows/run/call.ts` says which endings allow another
// one.

const MOST_ATTEMPTS = 5;
const FIRST_WAIT_MS = 1_000;
const LAST_WAIT_MS = 60_000;

/** @param attempts so far */
export function mayTryAgain(attempts: number): boolean {
  return attempts < MOST_ATTEMPTS;
}

/** The wait in ms: doubled with each attempt, between 1 s and 60 s, and at least what the server wants. */
export function waitBeforeNext(attempts: number, retryAfterMs = 0): number {
  return Math.max(Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), LAST_WAIT_MS), retryAfterMs);
}

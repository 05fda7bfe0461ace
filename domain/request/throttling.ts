/**
 * Calls that may run and are held back, because their server takes no more just now (docs/adr/0037).
 *
 * Pure. Owns how a held call looks, how long it waits, and when it is given up. Does not own who holds it
 * (`activities/limits/server-limits.ts`), nor waiting (`workflows/run/call.ts`).
 *
 * 1. Only what an activity says holds a call: runs of earlier releases have none, and replay as they were.
 * 2. Being held is no attempt: nothing was sent. What bounds it is time.
 */
import type { HeldCall } from '../../contracts/schemas/throttled.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { callOf, type Change, replaceCall, type Run } from '../state/run.ts';
import { type CallState, type InFlight, notSent, type Sendable } from '../state/call.ts';

export type Holding = Extract<DispatchResult, { kind: 'not-sent' }> & {
  readonly held: NonNullable<Extract<DispatchResult, { kind: 'not-sent' }>['held']>;
};

export type Held = Sendable & { readonly held: NonNullable<Sendable['held']> };

/** Where the activity names no time; no activity of ours does. */
const DEFAULT_WAIT_MS = 1_000;

export function isHolding(result: DispatchResult): result is Holding {
  return result.kind === 'not-sent' && result.held !== undefined;
}

export function isHeld(state: CallState): state is Held {
  return (state.status === 'cleared' || state.status === 'approved') && state.held !== undefined;
}

/** Dispatches that may have reached the server since people last let it leave: those that were held back did not. */
export function attemptsOf({ attempts, holds }: InFlight): number {
  return attempts - (holds?.count ?? 0);
}

/** Why a call waits no longer; undefined where it still may. @param now epoch ms */
export function waitedOut({ holds }: InFlight, { held, message }: Holding, now: number): string | undefined {
  const { since } = holds ?? {};
  if (since === undefined || now < since + held.atMostSeconds * 1_000) return undefined;
  return `${message} It waited ${Math.round((now - since) / 1_000)} s for its turn and was not sent.`;
}

/** The call waits. @param now epoch ms */
export function heldBack(run: Run, callId: string, holding: Holding, now: number): Change {
  const state = callOf(run, callId);
  if (state?.status !== 'in-flight') return { run, facts: [] };
  const { held, message, code, retryAfterMs = DEFAULT_WAIT_MS } = holding;
  const { by, atMostSeconds } = held;
  const since = state.holds?.since ?? now;
  // Not beyond the time at which it is given up.
  const until = Math.max(now + 1, Math.min(now + retryAfterMs, since + atMostSeconds * 1_000));
  const next: Held = {
    ...notSent(state),
    holds: { count: (state.holds?.count ?? 0) + 1, since, by },
    held: { since, until, by, message },
  };
  // The ledger says it once, however often the call comes back for nothing.
  const facts = state.holds?.by === by ? [] : [{ kind: 'held', callId, by, code } as const];
  return { run: replaceCall(run, next), facts };
}

export function heldCalls({ calls }: Run): readonly Held[] {
  return calls.filter(isHeld);
}

/** As people read it. */
export function shownHeld({ call, judgement, held }: Held): HeldCall {
  const { server, tool } = judgement.target;
  const { by, message, since, until } = held;
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

// How often a call is sent, and how long it waits in between.
//
// Pure. Does not own which endings let it be sent again (`workflows/run/call.ts`).

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

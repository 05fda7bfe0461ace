/**
 * One call from its verdict to its outcome. Runs beside the other calls of the turn and never waits for them (INV-G3).
 *
 * 1. Never throws: every ending is an outcome.
 * 2. A call is sent only from the state `cleared` or `approved` (INV-G1), and again only where nothing was sent or the
 *    operator calls the tool repeatable (INV-X1).
 */
import { ActivityFailure, TimeoutFailure } from '@temporalio/common';
import { condition, isCancellation, sleep } from '@temporalio/workflow';
import type { DispatchResult } from '../contracts/activities.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import type { Outcome } from '../contracts/schemas/call.ts';
import { describeRule } from '../domain/approver.ts';
import type { Asking, CallState, InFlight, Sendable, Unsure } from '../domain/call-state.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';
import { attemptsOf, isHeld, isHolding } from '../domain/held.ts';
import { summaryOf } from '../domain/present.ts';
import { nextStep, shownOf, tell } from '../domain/steps.ts';
import { describeLapse, lapsedSince } from '../domain/validity.ts';
import { askedAgain, callOf, dispatched, ended, returned } from '../domain/run.ts';
import { interrupted } from '../domain/talk.ts';
import { sentAsTold } from '../domain/outcome-pause.ts';
import { callActivities } from './activity-stubs.ts';
import { dispatchInput } from './dispatch-input.ts';
import { hold, waitForTurn } from './held-calls.ts';
import { askAnew, askAuthorization, askInput, askOutcome } from './pauses.ts';
import { dropRefused, noLongerAnswered } from './standing-calls.ts';
import type { LiveRun } from './live-run.ts';

/** Sends of one call, the first included. */
const MOST_ATTEMPTS = 5;
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;

export async function settleCall(live: LiveRun, callId: string): Promise<void> {
  for (;;) {
    const state = callOf(live.run, callId);
    if (state === undefined || state.status === 'settled' || live.rolling) return;
    switch (state.status) {
      case 'asking':
        await waitForDecision(live, state);
        break;
      case 'cleared':
      case 'approved':
        if (isHeld(state) && Date.now() < state.held.until) await waitForTurn(live, state);
        else await dispatch(live, state);
        break;
      case 'proposed':
      case 'in-flight':
        // Judged before, and in flight only inside `dispatch`: neither is seen here.
        settle(live, callId, {
          kind: 'failed',
          code: 'INTERNAL',
          message: `The call stood at ${state.status}.`,
          executed: state.status === 'in-flight',
        });
    }
  }
}

/** Until somebody has answered it, or its time is over; it may ask anew then. */
export async function waitForDecision(live: LiveRun, state: Asking): Promise<void> {
  const { call, request } = state;
  const { callId } = call;
  // A request that was postponed or edited, or has told something, is another one: its timer is set anew.
  const isAsking = (): boolean => {
    const now = callOf(live.run, callId);
    return now?.status === 'asking' && now.request === request;
  };
  try {
    const step = nextStep(request);
    const left = Math.max(1, (step?.at ?? request.deadline) - Date.now());
    const next = step === undefined ? '' : `${step.kind} next, `;
    const summary = summaryOf(state, `${next}waits for ${describeRule(shownOf(request).approvers)}`);
    const decidedInTime = await condition(() => !isAsking() || live.rolling, left, { summary });
    // A decision may have come in the very task in which the timer fired: the first one counts.
    if (decidedInTime || !isAsking()) return;
    // Where no worker was there for long, nobody is told of what is over.
    if (step !== undefined && Date.now() < request.deadline)
      live.commit(tell(live.run, callId, Math.max(step.at, Date.now())));
    else settle(live, callId, { kind: 'expired', deadline: new Date(request.deadline).toISOString() });
  } catch (error) {
    if (!isCancellation(error)) throw error;
    settle(live, callId, live.withdrawal);
  }
}

async function dispatch(live: LiveRun, state: Sendable): Promise<void> {
  const { callId } = state.call;
  if (live.work.consideredCancelled) return settle(live, callId, live.withdrawal);
  if (state.status === 'approved') {
    const end = lapsedSince(state.made.decidedAt, Date.now(), state.request.approvers);
    if (end !== undefined) {
      const lapse = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: describeLapse(end) } as const;
      return askAgain(live, state, lapse);
    }
    const gone = noLongerAnswered(live, state, Date.now());
    if (gone !== undefined) return askAgain(live, state, gone);
  }
  const change = dispatched(live.run, callId);
  if (change === undefined) return;
  live.commit(change);
  // Sound: `dispatched` answered, so the call is in flight.
  const flight = callOf(live.run, callId) as InFlight;
  const { judgement } = flight;
  const handedAt = Date.now();
  const attempts = attemptsOf(flight);
  const result = await send(live, flight);
  switch (result.kind) {
    case 'ended':
      if (
        result.outcome.kind === 'unknown' &&
        judgement.repeatable &&
        attempts < MOST_ATTEMPTS &&
        !live.work.consideredCancelled
      ) {
        return await tryAgain(live, callId, attempts, undefined, result.outcome);
      }
      if (askOutcome(live, flight, result, handedAt) || askAuthorization(live, flight, result)) return;
      return live.commit(ended(live.run, callId, result.outcome, result.token));
    case 'not-sent':
      if (isHolding(result)) return hold(live, flight, result);
      if (attempts >= MOST_ATTEMPTS)
        return settle(live, callId, { kind: 'failed', code: result.code, message: result.message, executed: false });
      return await tryAgain(live, callId, attempts, result.retryAfterMs);
    case 'reopen':
      if (askAnew(live, flight, result)) return;
      dropRefused(live, flight, result.code);
      return askAgain(live, flight, result);
    case 'refused':
      dropRefused(live, flight, result.code);
      return settle(live, callId, { kind: 'denied', code: result.code, message: result.message });
    case 'input':
      if (live.work.consideredCancelled) return settle(live, callId, live.withdrawal);
      return askInput(live, flight, result);
  }
}

function askAgain(live: LiveRun, state: InFlight | Sendable, why: Extract<DispatchResult, { kind: 'reopen' }>): void {
  live.commit(askedAgain(live.run, state.call.callId, why, live.ids, fallbackOf(live, state), Date.now()));
  live.commit(interrupted(live.run));
}

/** The activity's answer; a lost one is `unknown`, since what is not proven unsent may have run. */
async function send(live: LiveRun, state: InFlight): Promise<DispatchResult> {
  const input = dispatchInput(live, state);
  const approver = state.made === undefined ? '' : `countersigned by ${state.made.decision.approver.id}`;
  try {
    const { callTimeoutSeconds } = input.limits;
    const summary = summaryOf(state, approver);
    const { callTool } = callActivities(input.server, callTimeoutSeconds, summary, live.prepared.priority);
    return await live.flights.run(() => callTool(input));
  } catch (error) {
    // Cancelled before a worker took it: our activity answers, and does not throw, once it has begun.
    if (isCancellation(error)) return { kind: 'ended', outcome: live.withdrawal };
    const message = codedFailureIn(error)?.message ?? 'The worker was lost while the call was under way.';
    const sent = sentAsTold(lastWordIn(error));
    return {
      kind: 'ended',
      outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message },
      ...(sent === undefined ? {} : { sent }),
    };
  }
}

/** Of a worker that is lost, its last heartbeat. */
function lastWordIn(error: unknown): unknown {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof TimeoutFailure ? cause.lastHeartbeatDetails : undefined;
}

async function tryAgain(
  live: LiveRun,
  callId: string,
  attempts: number,
  retryAfterMs: number | undefined,
  unsure?: Unsure,
): Promise<void> {
  live.commit(returned(live.run, callId, unsure));
  const backoff = Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), LAST_RETRY_MS);
  const delay = Math.max(backoff, retryAfterMs ?? 0);
  const summary = `try ${callId} again`;
  const waiting = callOf(live.run, callId);
  try {
    // What let it run may be taken back meanwhile: then it is asked, and must not sleep.
    if (waiting?.status === 'approved' && waiting.made.standing !== undefined)
      await condition(() => callOf(live.run, callId)?.status !== 'approved', delay, { summary });
    else await sleep(delay, { summary });
  } catch (error) {
    if (!isCancellation(error)) throw error;
    settle(live, callId, live.withdrawal);
  }
}

function fallbackOf(
  { prepared }: LiveRun,
  { judgement }: Sendable | InFlight,
): { approverId: string; deadlineSeconds: number } {
  const { verdict } = judgement;
  return {
    approverId: prepared.initiator.id,
    deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : DEFAULT_DEADLINE_SECONDS,
  };
}

function settle(live: LiveRun, callId: CallState['call']['callId'], outcome: Outcome): void {
  live.commit(ended(live.run, callId, outcome));
}

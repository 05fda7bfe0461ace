/**
 * One call from its verdict to its outcome. Runs beside the other calls of the turn and never waits for them (INV-G3).
 *
 * 1. Never throws: every ending is an outcome.
 * 2. A call is sent only from the state `cleared` or `approved` (INV-G1), and again only where nothing was sent or the
 *    operator calls the tool repeatable (INV-X1).
 */
import { condition, isCancellation, patched, sleep } from '@temporalio/workflow';
import type { DispatchResult } from '../contracts/dispatch.ts';
import type { Outcome } from '../contracts/schemas/call.ts';
import type { CallState, InFlight, Sendable, Unsure } from '../domain/call-state.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';
import { attemptsOf, isHeld, isHolding } from '../domain/held.ts';
import { isHeldOpen, toldHeld } from '../domain/held-input.ts';
import { describeLapse, lapsedSince } from '../domain/validity.ts';
import { askedAgain, dispatched, ended, returned } from '../domain/call-changes.ts';
import { callOf } from '../domain/run.ts';
import { isResumable } from '../domain/resumption.ts';
import { mayTryAgain, waitBeforeNext } from '../domain/retry.ts';
import { interrupted } from '../domain/talk.ts';
import { isOnTask, type OnTask, taskBegun } from '../domain/server-task.ts';
import { dispatchInput } from './dispatch-input.ts';
import { hold, waitForTurn } from './held-calls.ts';
import { closeQuestion } from './held-input.ts';
import { askAnew, askAuthorization, askInput, askOutcome } from './pauses.ts';
import { askForAnswer, sendCall } from './send-call.ts';
import { followTask } from './server-tasks.ts';
import { dropRefused, noLongerAnswered } from './standing-calls.ts';
import type { LiveRun } from './live-run.ts';
import { waitForDecision } from './waiting.ts';

export async function settleCall(live: LiveRun, callId: string): Promise<void> {
  for (;;) {
    const state = callOf(live.run, callId);
    if (state === undefined || state.status === 'settled' || live.rolling) return;
    switch (state.status) {
      case 'asking':
        // A call that was sent never ends with a question: only `dispatch` waits while its server is held.
        if (isHeldOpen(state)) closeQuestion(live, callId);
        else await waitForDecision(live, state);
        break;
      case 'cleared':
      case 'approved':
        if (isHeld(state) && Date.now() < state.held.until) await waitForTurn(live, state);
        else await dispatch(live, state);
        break;
      case 'proposed':
      case 'in-flight':
        if (isOnTask(state)) await follow(live, state);
        else notExpected(live, state);
    }
  }
}

async function follow(live: LiveRun, state: OnTask): Promise<void> {
  const result = await followTask(live, state.call.callId);
  if (result === undefined) return;
  const again = sentAgain(live, state, result);
  if (again === undefined) conclude(live, state, result, state.task.since);
  else await again;
}

/** Judged before, and in flight without a task only inside `dispatch`: neither is seen where calls are settled. */
function notExpected(live: LiveRun, { call, status }: CallState): void {
  const message = `The call stood at ${status}.`;
  settle(live, call.callId, { kind: 'failed', code: 'INTERNAL', message, executed: status === 'in-flight' });
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
  const handedAt = Date.now();
  const input = dispatchInput(live, flight);
  live.dispatching.add(callId);
  let result = await sendCall(live, flight, input);
  live.dispatching.delete(callId);
  closeQuestion(live, callId);
  live.commit(toldHeld(live.run, flight, result));
  // A build that asks no server has gone on without: then this one does, too.
  for (let asked = 0; isResumable(result, asked) && patched('lost-answers'); asked += 1)
    result = await askForAnswer(live, flight, input, result);
  const again = sentAgain(live, flight, result);
  if (again === undefined) conclude(live, flight, result, handedAt);
  else await again;
}

/**
 * Until it may be sent again, where it may. Neither this nor `conclude` is `async`: a promise more would change the order of commands
 * in recorded runs, where two calls come back in one workflow task (INV-D1).
 */
function sentAgain(live: LiveRun, flight: InFlight, result: DispatchResult): Promise<void> | undefined {
  const { judgement, call } = flight;
  const attempts = attemptsOf(flight);
  if (!mayTryAgain(attempts)) return undefined;
  if (result.kind === 'not-sent' && !isHolding(result))
    return tryAgain(live, call.callId, attempts, result.retryAfterMs);
  const isUnsure = result.kind === 'ended' && result.outcome.kind === 'unknown';
  return isUnsure && judgement.repeatable && !live.work.consideredCancelled
    ? tryAgain(live, call.callId, attempts, undefined, result.outcome)
    : undefined;
}

/** What follows from the answer to a dispatch, or from what its task came to. @param handedAt epoch ms */
function conclude(live: LiveRun, flight: InFlight, result: DispatchResult, handedAt: number): void {
  const { callId } = flight.call;
  switch (result.kind) {
    case 'ended':
      if (askOutcome(live, flight, result, handedAt) || askAuthorization(live, flight, result)) return;
      return live.commit(ended(live.run, callId, result.outcome, result.token));
    case 'not-sent':
      if (isHolding(result)) return hold(live, flight, result);
      return settle(live, callId, { kind: 'failed', code: result.code, message: result.message, executed: false });
    case 'reopen':
      if (askAnew(live, flight, result)) return;
      dropRefused(live, flight, result.code);
      return askAgain(live, flight, result);
    case 'refused':
      dropRefused(live, flight, result.code);
      return settle(live, callId, { kind: 'denied', code: result.code, message: result.message });
    case 'task':
      // A build that knows of none leaves the call where it stands, which ends it.
      if (patched('tasks')) live.commit(taskBegun(live.run, callId, result, Date.now()));
      return;
    case 'input':
      if (live.work.consideredCancelled) return settle(live, callId, live.withdrawal);
      return askInput(live, flight, result);
  }
}

function askAgain(live: LiveRun, state: InFlight | Sendable, why: Extract<DispatchResult, { kind: 'reopen' }>): void {
  live.commit(askedAgain(live.run, state.call.callId, why, live.ids, fallbackOf(live, state), Date.now()));
  live.commit(interrupted(live.run));
}

async function tryAgain(
  live: LiveRun,
  callId: string,
  attempts: number,
  retryAfterMs: number | undefined,
  unsure?: Unsure,
): Promise<void> {
  live.commit(returned(live.run, callId, unsure));
  const delay = waitBeforeNext(attempts, retryAfterMs);
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

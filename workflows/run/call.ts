/**
 * One call from its verdict to its outcome. Runs beside the other calls of the turn and never waits for them (INV-G3).
 *
 * 1. Never throws: every ending is an outcome.
 * 2. A call is sent only from the state `cleared` or `approved` (INV-G1), and again only where nothing was sent or the
 *    operator calls the tool repeatable (INV-X1).
 */
import { ActivityFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { condition, isCancellation, patched, sleep } from '@temporalio/workflow';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { isHeldOpen, toldHeld } from '../../domain/legacy-2025/open-question.ts';
import { afterAsking, isResumable, lostAnswer, type Resumable, resumed } from '../../domain/legacy-2025/resumption.ts';
import { isOnTask, type OnTask, taskBegun } from '../../domain/legacy-2025/tasks.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../../domain/policy/times.ts';
import type { CallState, InFlight, Sendable, Unsure } from '../../domain/state/call.ts';
import { describeLapse, lapsedSince } from '../../domain/request/deadline.ts';
import {
  attemptsOf,
  type Held,
  heldBack,
  type Holding,
  isHeld,
  isHolding,
  mayTryAgain,
  waitBeforeNext,
  waitedOut,
} from '../../domain/request/throttling.ts';
import { askedAgain, dispatched, ended, returned } from '../../domain/request/transitions.ts';
import { interrupted } from '../../domain/run/message-queue.ts';
import { callOf } from '../../domain/state/run.ts';
import { summaryOf } from '../../domain/views/temporal-ui.ts';
import { answered, assertFailure } from '../entity/unread.ts';
import { closeQuestion } from '../legacy-2025/open-question.ts';
import { followTask } from '../legacy-2025/tasks.ts';
import { callActivities, resumeActivities } from './activities.ts';
import { dispatchInput } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';
import { askAnew, askAuthorization, askInput, askOutcome } from './pauses.ts';
import { dropRefused, noLongerAnswered } from './standing.ts';
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

// One dispatch of a call; and where its worker is lost, its server is asked for the answer by another one (docs/adr/0039).
//
// 1. A lost answer is an outcome and no error, since what is not proven unsent may have run (INV-X1). So is one that cannot be read.
// 2. The call itself is handed to a worker once. What follows sends nothing, and ends no worse than without it.

const LOST = 'The worker was lost while the call was under way.';
/** Temporal says the same of a call that no worker has taken, and of one that somebody has failed while it was under way. */
const WITHDRAWN = 'The call was withdrawn after it was handed over; it is not known whether a worker had sent it.';

/** The activity's answer; a lost one is `unknown`. */
async function sendCall(live: LiveRun, state: InFlight, input: DispatchInput): Promise<DispatchResult> {
  const approver = state.made === undefined ? '' : `countersigned by ${state.made.decision.approver.id}`;
  try {
    // Its own deadline stands still while people are asked.
    const seconds = input.limits.callTimeoutSeconds + (input.hold?.seconds ?? 0);
    const summary = summaryOf(state, approver);
    const { callTool } = callActivities(input.server, seconds, summary, live.prepared.priority);
    return answered(live, 'callTool', await live.flights.run(() => callTool(input)));
  } catch (error) {
    assertFailure(error);
    // Never scheduled, or of an earlier release, which took for that what our activity does not answer itself.
    const isUnsent = error instanceof CancelledFailure || live.prepared.withdrawals === undefined;
    if (isCancellation(error) && isUnsent) return { kind: 'ended', outcome: live.withdrawal };
    const message = codedFailureIn(error)?.message ?? (isCancellation(error) ? WITHDRAWN : LOST);
    return lostAnswer(message, lastWordIn(error));
  }
}

/** The answer to a call whose worker is lost, where its server has it; else what was known before. */
async function askForAnswer(
  live: LiveRun,
  state: InFlight,
  // Whoever asks for an answer sends nothing, and holds no connection for people.
  { hold: _, ...input }: DispatchInput,
  { resume, ...lost }: Resumable,
): Promise<DispatchResult> {
  // A stop that lets calls finish lets this one be heard.
  if (live.flights.consideredCancelled || live.timeIsUp) return lost;
  live.commit(resumed(live.run, input.callId));
  try {
    const { callTimeoutSeconds } = input.limits;
    const summary = summaryOf(state, 'asks for the answer');
    const { resumeCall } = resumeActivities(input.server, callTimeoutSeconds, summary, live.prepared.priority);
    return afterAsking(
      lost,
      answered(live, 'resumeCall', await live.flights.run(() => resumeCall({ ...input, resume }))),
    );
  } catch (error) {
    assertFailure(error);
    // Whoever asked is lost too, or nobody asked, or nobody wants it any more: the call itself was sent all the same.
    return afterAsking(lost, lostAnswer(lost.outcome.message, lastWordIn(error)));
  }
}

/** Of a worker that is lost, its last heartbeat. */
function lastWordIn(error: unknown): unknown {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof TimeoutFailure ? cause.lastHeartbeatDetails : undefined;
}

// Calls whose server takes no more just now: they wait by timer, and no slot of a worker is kept for them (docs/adr/0037).

/** What the dispatch said counts: waits again, or waited long enough. */
function hold(live: LiveRun, flight: InFlight, holding: Holding): void {
  const { callId } = flight.call;
  const why = waitedOut(flight, holding, Date.now());
  if (why === undefined) {
    live.commit(heldBack(live.run, callId, holding, Date.now()));
    live.commit(interrupted(live.run));
  } else live.commit(ended(live.run, callId, { kind: 'failed', code: holding.code, message: why, executed: false }));
}

/** Until its time, or what let it run is taken back, or the run hands over: the next execution waits for the rest. */
async function waitForTurn(live: LiveRun, state: Held): Promise<void> {
  const { callId } = state.call;
  const { until, by } = state.held;
  const isOver = (): boolean => {
    const { status } = callOf(live.run, callId) ?? {};
    return live.rolling || (status !== 'cleared' && status !== 'approved');
  };
  try {
    await condition(isOver, Math.max(1, until - Date.now()), { summary: summaryOf(state, `held back: ${by}`) });
  } catch (error) {
    if (!isCancellation(error)) throw error;
    live.commit(ended(live.run, callId, live.withdrawal));
  }
}

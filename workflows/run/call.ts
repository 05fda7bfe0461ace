/**
 * Takes one call from its verdict to its outcome, without waiting for the other calls of the turn (INV-G3).
 *
 * 1. It never throws: every ending is an outcome.
 * 2. It sends a call only from the state `cleared` or `approved` (INV-G1). It sends the call again only if nothing was
 *    sent or the operator calls the tool repeatable (INV-X1).
 * 3. A lost or unreadable answer is an outcome: a call not proven unsent may have run (INV-X1).
 * 4. The call is handed to a worker once. If that worker is lost, another one asks the server for the answer
 *    (docs/adr/0039). Asking sends no call, and never leads to a worse outcome than not asking.
 * 5. A call whose server takes no more just now waits by timer and occupies no worker slot (docs/adr/0037).
 *
 * One file, because it is the life of one call: who changes one wait has to see where it leads.
 */
import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { isCancellation, patched, sleep } from '@temporalio/workflow';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { Consent, Unsure } from '../../contracts/wire/carry.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { elicitationClosed, elicitationTold } from '../../domain/legacy-2025/open-question.ts';
import { afterAsking, isResumable, lostAnswer, type Resumable, resumed } from '../../domain/legacy-2025/resumption.ts';
import { taskBegun } from '../../domain/legacy-2025/tasks.ts';
import { type Answerers, answerersByDefault, describeRule } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince, nextStep, shownOf, tell } from '../../domain/request/deadline.ts';
import {
  attemptsOf,
  throttledBy,
  type Throttling,
  isPutOff,
  isThrottling,
  mayTryAgain,
  putOff,
  waitBeforeNext,
  waitedOut,
} from '../../domain/request/throttling.ts';
import { FORGOTTEN, lost as withoutStanding, standingOf } from '../../domain/request/standing.ts';
import { askedAgain, dispatched, ended, returned } from '../../domain/request/transitions.ts';
import {
  type Asking,
  callOf,
  type CallState,
  type Dispatched,
  type InFlight,
  isAsking,
  type OnTask,
  type Sendable,
  type Throttled,
} from '../../domain/state/run.ts';
import { isAnswerOf } from '../../domain/shapes/inputs.ts';
import { byWhoseWord, summaryOf } from '../../domain/views/temporal-ui.ts';
import { answered, assertFailure, seenAs } from '../entity/unread.ts';
import { followTask } from '../legacy-2025/tasks.ts';
import { callActivities, resumeActivities } from './activities.ts';
import { dispatchInput } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';
import { askAnew, askAuthorization, askInput, askOutcome } from './pauses.ts';
import { condition } from '../interceptors/condition.ts';

type Reopening = Extract<DispatchResult, { kind: 'reopen' }>;

/** Brings a call to its outcome. Returns early, without one, when the run hands over. */
export async function settleCall(live: LiveRun, callId: string): Promise<void> {
  for (;;) {
    const state = callOf(live.run, callId);
    if (state === undefined || state.status === 'settled' || live.rolling) return;
    switch (state.status) {
      case 'waiting-for-consent':
      case 'waiting-for-answer':
        await waitForDecision(live, state);
        break;
      case 'cleared':
      case 'approved':
      case 'throttled':
        if (state.status === 'throttled' && Date.now() < state.wait.until) await waitForTurn(live, state);
        else if (state.consent !== undefined && live.awaitsClient) await waitForClient(live, state);
        else await dispatch(live, state);
        break;
      case 'on-task':
        await follow(live, state);
        break;
      case 'asking-on-connection':
        // A call that was sent never ends with an open question: only `dispatch` waits for its server.
        closeQuestion(live, callId);
        break;
      case 'in-flight':
        await takeResult(live, state);
        break;
      case 'proposed':
        notExpected(live, state);
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

/** Fails a call in a state that is never seen here: calls are judged before, and in flight only in `dispatch`. */
function notExpected(live: LiveRun, { call, status }: CallState): void {
  const message = `The call stood at ${status}.`;
  settle(live, call.callId, { kind: 'failed', code: 'INTERNAL', message, executed: status === 'in-flight' });
}

/** Goes on with a call that a stretch has let go. Without its result nobody knows whether it ran. */
async function takeResult(live: LiveRun, flight: InFlight): Promise<void> {
  const { callId } = flight.call;
  const told = live.told.get(callId);
  if (told === undefined) return notExpected(live, flight);
  live.told.delete(callId);
  const { sentAt, result = { ...lostAnswer(LOST, undefined), sent: { at: new Date(sentAt).toISOString() } } } = told;
  const again = sentAgain(live, flight, result);
  if (again === undefined) conclude(live, flight, result, sentAt);
  else await again;
}

async function dispatch(live: LiveRun, state: Sendable): Promise<void> {
  const { callId } = state.call;
  if (live.work.consideredCancelled) return settle(live, callId, live.withdrawal);
  const { consent } = state;
  if (consent !== undefined) {
    const end = lapsedSince(consent.made.decidedAt, Date.now(), consent.request.approvers);
    if (end !== undefined) {
      const lapse = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: describeLapse(end) } as const;
      return askAgain(live, state, lapse);
    }
    const gone = noLongerAnswered(live, consent);
    if (gone !== undefined) return askAgain(live, state, gone);
  }
  const change = dispatched(live.run, callId);
  if (change === undefined) return;
  live.commit(change);
  // Sound: `dispatched` returned a change, so the call is in flight.
  const flight = callOf(live.run, callId) as InFlight;
  const handedAt = Date.now();
  const input = dispatchInput(live, flight);
  let result = await live.dispatching.during(callId, () => sendCall(live, flight, input));
  closeQuestion(live, callId);
  if ('held' in result) live.commit(elicitationTold(live.run, flight, result));
  for (let asked = 0; 'resume' in result && isResumable(result, asked); asked += 1)
    result = await askForAnswer(live, flight, input, result);
  const again = sentAgain(live, flight, result);
  if (again === undefined) conclude(live, flight, result, handedAt);
  else await again;
}

function noLongerAnswered({ run }: LiveRun, { made: { standing } }: Consent): Reopening | undefined {
  if (standing === undefined || standingOf(run, standing, Date.now()) !== undefined) return undefined;
  return { kind: 'reopen', code: 'STANDING_LOST', message: FORGOTTEN };
}

/** Ends a standing decision that a dispatch did not accept as consent, so that people are asked about the next call. */
function dropRefused(live: LiveRun, { consent }: Dispatched, code: string): void {
  const standing = consent?.made.standing;
  if (standing !== undefined) live.commit(withoutStanding(live.run, standing, code));
}

/**
 * Sends the call again after any wait, if it may be sent again; else returns undefined. Neither this function nor
 * `conclude` is `async`: one more promise would change the order of commands in recorded runs when two calls return in
 * one workflow task (INV-D1).
 */
function sentAgain(live: LiveRun, flight: Dispatched, result: DispatchResult): Promise<void> | undefined {
  const { judgement, call } = flight;
  const unsure = result.kind === 'ended' && result.outcome.kind === 'unknown' ? result.outcome : undefined;
  if (result.kind !== 'not-sent' && unsure === undefined) return undefined;
  if (result.kind === 'ended' && result.notRepeated === true) return undefined;
  const attempts = attemptsOf(flight);
  if (!mayTryAgain(attempts)) return undefined;
  if (result.kind === 'not-sent') {
    if (isThrottling(result)) return undefined;
    if (!isPutOff(result) || !patched('as-documented'))
      return tryAgain(live, call.callId, attempts, result.retryAfterMs);
    // Its state says until when it waits, so that the run may hand over meanwhile.
    live.commit(putOff(live.run, call.callId, result, Date.now()));
    return Promise.resolve();
  }
  return judgement.repeatable && !live.work.consideredCancelled
    ? tryAgain(live, call.callId, attempts, undefined, unsure)
    : undefined;
}

/** Applies the answer to a dispatch, or the result of its task. @param handedAt epoch ms */
function conclude(live: LiveRun, flight: Dispatched, result: DispatchResult, handedAt: number): void {
  const { callId } = flight.call;
  switch (result.kind) {
    case 'ended':
      if (result.outcome.kind === 'unknown' && askOutcome(live, flight, result, handedAt)) return;
      if (result.authorization !== undefined && askAuthorization(live, flight, result)) return;
      return live.commit(ended(live.run, callId, result.outcome, result.token));
    case 'not-sent':
      if (isThrottling(result)) return hold(live, flight, result);
      return settle(live, callId, { kind: 'failed', code: result.code, message: result.message, executed: false });
    case 'reopen':
      if (askAnew(live, flight, result)) return;
      dropRefused(live, flight, result.code);
      return askAgain(live, flight, result);
    case 'refused':
      dropRefused(live, flight, result.code);
      return settle(live, callId, { kind: 'denied', code: result.code, message: result.message });
    case 'task':
      return live.commit(taskBegun(live.run, callId, result, Date.now()));
    case 'input':
      if (live.work.consideredCancelled) return settle(live, callId, live.withdrawal);
      return askInput(live, flight, result);
  }
}

function askAgain(live: LiveRun, state: Dispatched | Sendable, why: Reopening): void {
  const isAnew = state.attempts > 0 && patched('as-documented');
  const fallback = fallbackOf(live, state);
  live.commit(askedAgain(live.run, state.call.callId, why, live.ids, fallback, Date.now(), isAnew));
}

async function tryAgain(
  live: LiveRun,
  callId: string,
  attempts: number,
  retryAfterMs: number | undefined,
  unsure?: Unsure,
): Promise<void> {
  live.retrying.add(callId);
  live.commit(returned(live.run, callId, unsure, unsure !== undefined && patched('as-documented')));
  const delay = waitBeforeNext(attempts, retryAfterMs);
  // A stretch that has lost an answer is green, so the timer says it.
  const summary = `try ${callId} again${unsure === undefined ? '' : ': it may have run'}`;
  const waiting = callOf(live.run, callId);
  // A message that interrupts has withdrawn it.
  if (waiting?.status === 'settled') return void live.retrying.delete(callId);
  try {
    // The standing decision may be taken back meanwhile. Then people are asked about the call, and it must not sleep.
    if (waiting?.status === 'approved' && waiting.consent.made.standing !== undefined)
      await condition(() => callOf(live.run, callId)?.status !== 'approved', delay, { summary });
    else await sleep(delay, { summary });
  } catch (error) {
    if (!isCancellation(error)) throw error;
    settle(live, callId, live.withdrawal);
  } finally {
    live.retrying.delete(callId);
  }
}

/** Closes a question whose answer nobody wants any more: the dispatch has ended, or the run ends. */
export function closeQuestion(live: LiveRun, callId: string): void {
  if (callOf(live.run, callId)?.status === 'asking-on-connection')
    live.commit(elicitationClosed(live.run, callId, 'cancelled'));
}

/** Who is asked again if neither the gate nor the former request says so, and for how long if the gate does not. */
function fallbackOf({ prepared }: LiveRun, { judgement }: Sendable | Dispatched): Answerers {
  const { verdict } = judgement;
  const { approvers, deadlineSeconds } = answerersByDefault(prepared.initiator.id);
  return { approvers, deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : deadlineSeconds };
}

function settle(live: LiveRun, callId: CallState['call']['callId'], outcome: Outcome): void {
  live.commit(ended(live.run, callId, outcome));
}

const LOST = 'The worker was lost while the call was under way.';
/** Temporal reports the same for a call that no worker took and for one that was failed from outside. */
const WITHDRAWN = 'The call was withdrawn after it was handed over; it is not known whether a worker had sent it.';

async function sendCall(live: LiveRun, state: InFlight, input: DispatchInput): Promise<DispatchResult> {
  try {
    // The call's own deadline stands still while people are asked.
    const seconds = input.limits.callTimeoutSeconds + (input.hold?.seconds ?? 0);
    const summary = summaryOf(state, byWhoseWord(state));
    const { callTool } = callActivities(input.server, seconds, summary, live.prepared.priority);
    return answered(live, 'callTool', await live.flights.run(() => callTool(input)));
  } catch (error) {
    assertFailure(error);
    const told = lostIn(live, error);
    if (told !== undefined) return told;
    // The call was never scheduled.
    if (error instanceof CancelledFailure) return { kind: 'ended', outcome: live.withdrawal };
    const message = codedFailureIn(error)?.message ?? (isCancellation(error) ? WITHDRAWN : LOST);
    return lostAnswer(message, lastWordIn(error));
  }
}

/** Asks the server of a call whose worker is lost for the answer; what was known before stays if it has none. */
async function askForAnswer(
  live: LiveRun,
  state: InFlight,
  // The activity that asks for an answer sends nothing and holds no connection open for people, so it gets no `hold`.
  { hold: _, ...input }: DispatchInput,
  { resume, ...lost }: Resumable,
): Promise<DispatchResult> {
  // A stop that lets calls finish also lets this answer arrive.
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
    // The asking worker was lost too, or none asked. The call itself was sent all the same.
    return afterAsking(lost, lostIn(live, error) ?? lostAnswer(lost.outcome.message, lastWordIn(error)));
  }
}

/** Returns what a worker knew of a call whose outcome it does not know (`activities/gate/call-tool.ts`). */
function lostIn(live: LiveRun, error: unknown): DispatchResult | undefined {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (!(cause instanceof ApplicationFailure) || cause.type !== 'OUTCOME_UNKNOWN') return undefined;
  const seen = seenAs(live, cause.details?.[0]);
  if (!isAnswerOf('callTool', seen)) return undefined;
  // Sound: it has every field of a dispatch's result that the run reads.
  const result = seen as DispatchResult;
  return result.kind === 'ended' && result.outcome.kind === 'unknown' ? result : undefined;
}

function lastWordIn(error: unknown): unknown {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  return cause instanceof TimeoutFailure ? cause.lastHeartbeatDetails : undefined;
}

function hold(live: LiveRun, flight: Dispatched, throttling: Throttling): void {
  const { callId } = flight.call;
  const why = waitedOut(flight, throttling, Date.now());
  if (why === undefined) live.commit(throttledBy(live.run, callId, throttling, Date.now()));
  else settle(live, callId, { kind: 'failed', code: throttling.code, message: why, executed: false });
}

/** Waits until the call's time comes, it waits no more, or the run hands over to the next execution. */
function waitForTurn(live: LiveRun, state: Throttled): Promise<void> {
  const { callId } = state.call;
  const { until, by } = state.wait;
  const isOver = (): boolean => live.rolling || callOf(live.run, callId)?.status !== 'throttled';
  const summary = summaryOf(state, `held back: ${by}`);
  return orWithdrawn(live, callId, () => condition(isOver, Math.max(1, until - Date.now()), { summary }));
}

/** Waits until the client of an approved call is back, or the run hands over; what has lapsed is asked again. */
function waitForClient(live: LiveRun, { call: { callId }, status }: Sendable): Promise<void> {
  const isOver = (): boolean => live.rolling || !live.awaitsClient || callOf(live.run, callId)?.status !== status;
  return orWithdrawn(live, callId, () => live.away.during(callId, () => condition(isOver)));
}

/** Waits; a call whose wait is cancelled ends as withdrawn. The wait is the only promise here, as in recorded runs. */
async function orWithdrawn(live: LiveRun, callId: string, wait: () => Promise<unknown>): Promise<void> {
  try {
    await wait();
  } catch (error) {
    if (!isCancellation(error)) throw error;
    settle(live, callId, live.withdrawal);
  }
}

/** Waits for a decision; the call ends with its request. Not `async`, as `sentAgain`. */
export function waitForDecision(live: LiveRun, state: Asking): Promise<void> {
  const { callId } = state.call;
  const deadline = new Date(state.request.deadline).toISOString();
  return waitForAnswer(live, state, {
    expired: () => settle(live, callId, { kind: 'expired', deadline }),
    withdrawn: () => settle(live, callId, live.withdrawal),
  });
}

/** Waits until the request is answered, tells its next step, or is over. @param unanswered how it then ends */
export async function waitForAnswer(
  live: LiveRun,
  state: Asking,
  unanswered: Readonly<Record<'expired' | 'withdrawn', () => void>>,
): Promise<void> {
  const { call, request } = state;
  const { callId } = call;
  // A request that was postponed or edited, or whose step was told, is a new object, so its timer is set again.
  const isOpen = (): boolean => {
    const now = callOf(live.run, callId);
    return isAsking(now) && now.request === request;
  };
  try {
    const step = nextStep(request);
    const left = Math.max(1, (step?.at ?? request.deadline) - Date.now());
    const next = step === undefined ? '' : `${step.kind} next, `;
    const summary = summaryOf(state, `${next}waits for ${describeRule(shownOf(request).approvers)}`);
    const decidedInTime = await condition(() => !isOpen() || live.rolling, left, { summary });
    // A decision may have come in the very task in which the timer fired; the first one counts.
    if (decidedInTime || !isOpen()) return;
    // If no worker ran for a long time, nobody is told about a request that is already over.
    if (step !== undefined && Date.now() < request.deadline)
      live.commit(tell(live.run, callId, Math.max(step.at, Date.now())));
    else unanswered.expired();
  } catch (error) {
    if (!isCancellation(error)) throw error;
    unanswered.withdrawn();
  }
}

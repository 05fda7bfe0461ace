/** Lets a request wait for people until it is answered, its next step is due, or its time is over. */
import { condition, isCancellation } from '@temporalio/workflow';
import { describeRule } from '../../domain/policy/approvers.ts';
import { type Asking, isAsking } from '../../domain/state/call.ts';
import { nextStep, shownOf, tell } from '../../domain/request/deadline.ts';
import { ended } from '../../domain/request/transitions.ts';
import { callOf } from '../../domain/state/run.ts';
import { summaryOf } from '../../domain/views/temporal-ui.ts';
import type { LiveRun } from './live-run.ts';

/** Endings of a request that nobody has answered. */
interface Unanswered {
  readonly expired: () => void;
  /** The wait was cancelled: nobody wants an answer any more. */
  readonly withdrawn: () => void;
}

/**
 * Waits for a decision; the call ends with its request. Not `async`: one more promise would change the order of
 * commands in recorded runs (INV-D1).
 */
export function waitForDecision(live: LiveRun, state: Asking): Promise<void> {
  const { callId } = state.call;
  const deadline = new Date(state.request.deadline).toISOString();
  return waitForAnswer(live, state, {
    expired: () => live.commit(ended(live.run, callId, { kind: 'expired', deadline })),
    withdrawn: () => live.commit(ended(live.run, callId, live.withdrawal)),
  });
}

/** Waits until the request is answered, tells its next step, or is over. The caller may then open a new request. */
export async function waitForAnswer(live: LiveRun, state: Asking, unanswered: Unanswered): Promise<void> {
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

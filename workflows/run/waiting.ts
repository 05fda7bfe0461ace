/** How a request waits for people: until somebody has answered it, it has something to tell, or its time is over. */
import { condition, isCancellation } from '@temporalio/workflow';
import { describeRule } from '../../domain/policy/approvers.ts';
import type { Asking } from '../../domain/state/call.ts';
import { nextStep, shownOf, tell } from '../../domain/request/deadline.ts';
import { ended } from '../../domain/request/transitions.ts';
import { callOf } from '../../domain/state/run.ts';
import { summaryOf } from '../../domain/views/temporal-ui.ts';
import type { LiveRun } from './live-run.ts';

/** What follows where nobody has answered. */
interface Unanswered {
  readonly expired: () => void;
  /** Nobody waits for it any more. */
  readonly withdrawn: () => void;
}

/** The call ends with its request. Not `async`: a promise more would change the order of commands in recorded runs (INV-D1). */
export function waitForDecision(live: LiveRun, state: Asking): Promise<void> {
  const { callId } = state.call;
  const deadline = new Date(state.request.deadline).toISOString();
  return waitForAnswer(live, state, {
    expired: () => live.commit(ended(live.run, callId, { kind: 'expired', deadline })),
    withdrawn: () => live.commit(ended(live.run, callId, live.withdrawal)),
  });
}

/** Until somebody has answered it, or its time is over; it may ask anew then. */
export async function waitForAnswer(live: LiveRun, state: Asking, unanswered: Unanswered): Promise<void> {
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
    else unanswered.expired();
  } catch (error) {
    if (!isCancellation(error)) throw error;
    unanswered.withdrawn();
  }
}

/**
 * One dispatch of a call; and where its worker is lost, its server is asked for the answer by another one (docs/adr/0039).
 *
 * 1. A lost answer is an outcome and no error, since what is not proven unsent may have run (INV-X1). So is one that cannot be read.
 * 2. The call itself is handed to a worker once. What follows sends nothing, and ends no worse than without it.
 */
import { ActivityFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { isCancellation } from '@temporalio/workflow';
import type { DispatchInput, DispatchResult } from '../contracts/dispatch.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import type { InFlight } from '../domain/call-state.ts';
import { summaryOf } from '../domain/present.ts';
import { afterAsking, lostAnswer, type Resumable, resumed } from '../domain/resumption.ts';
import { callActivities, resumeActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';
import { answered, assertFailure } from './unread.ts';

const LOST = 'The worker was lost while the call was under way.';
/** Temporal says the same of a call that no worker has taken, and of one that somebody has failed while it was under way. */
const WITHDRAWN = 'The call was withdrawn after it was handed over; it is not known whether a worker had sent it.';

/** The activity's answer; a lost one is `unknown`. */
export async function sendCall(live: LiveRun, state: InFlight, input: DispatchInput): Promise<DispatchResult> {
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
export async function askForAnswer(
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

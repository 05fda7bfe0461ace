/** Refuses messages to a run as failures with a code, before they change anything. */
import type { ApplicationFailure } from '@temporalio/common';
import { workflowInfo } from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Parsed } from '../../domain/shapes/messages.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import type { LiveRun } from './live-run.ts';

/** @throws ApplicationFailure with the code of the refusal, if there is one */
export function refuseWith(refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw failureOf(refusal.code, refusal.message, refusal.facts);
}

export function closed(): ApplicationFailure {
  return failureOf('RUN_CLOSED', 'The run is ending; start another one.', { runId: workflowInfo().workflowId });
}

/**
 * Replaces `CALL_UNKNOWN` while the run is ending: such a run makes no further calls and so does not know the one
 * named.
 */
export function endingOr(live: LiveRun, refusal: Refusal): Refusal {
  if (refusal.code !== 'CALL_UNKNOWN' || !(live.closing || live.work.consideredCancelled)) return refusal;
  const { callId = '' } = refusal.facts;
  return refuse('RUN_CLOSED', `The run is ending: call ${callId} waits for nobody any more. Nothing was changed.`, {
    callId,
    runId: workflowInfo().workflowId,
  });
}

/** Returns the argument of a query, if it could be decoded. */
export function askedAbout(about: unknown): unknown {
  if (isUndecodable(about)) throw failureOf('MESSAGE_INVALID', `What is asked about ${about.says}.`);
  return about;
}

/** @throws ApplicationFailure with this code, if the message has not the right shape */
export function parsed<T>(shape: Parsed<T>, code: ErrorCode): T {
  if (shape.kind === 'ok') return shape.value;
  throw failureOf(code, `${shape.path === '' ? 'The message' : shape.path} ${shape.reason}; nothing was changed.`, {
    path: shape.path,
  });
}

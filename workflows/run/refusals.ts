/** Refuses messages to a run as failures with a code, before they change anything. */
import type { ApplicationFailure } from '@temporalio/common';
import { workflowInfo } from '@temporalio/workflow';
import { failureOf } from '../../contracts/failure.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import type { LiveRun } from './live-run.ts';

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

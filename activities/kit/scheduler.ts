/** Who scheduled the activity that runs now: Temporal's word, which no input can forge. */
import { activityInfo } from '@temporalio/activity';
import type { Scheduler } from '../gate/dispatch-check.ts';

export function currentScheduler(): Scheduler {
  const info = activityInfo();
  const { workflowExecution, workflowType, workflowNamespace, namespace, attempt } = info;
  return {
    namespace: workflowNamespace ?? namespace,
    workflowType,
    workflowId: workflowExecution?.workflowId,
    runId: workflowExecution?.runId,
    attempt,
    scheduledAt: info.scheduledTimestampMs,
    attemptAt: info.currentAttemptScheduledTimestampMs,
  };
}

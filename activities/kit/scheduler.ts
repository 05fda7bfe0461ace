/** Tells who scheduled the current activity, by Temporal's word, which no input can forge. */
import { activityInfo } from '@temporalio/activity';

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

/** The scheduler by Temporal's word, not by the input's. */
export interface Scheduler {
  readonly namespace: string;
  readonly workflowType: string | undefined;
  readonly workflowId: string | undefined;
  readonly runId: string | undefined;
  readonly attempt: number;
  /** Epoch ms: when the activity was scheduled, and when this attempt was. */
  readonly scheduledAt: number;
  readonly attemptAt: number;
}

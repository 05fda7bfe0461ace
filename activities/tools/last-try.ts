/** Whether the question about a task that is asked now is tried again where it fails. */
import { activityInfo } from '@temporalio/activity';
import { MOST_TRIES } from '../../contracts/server-task.ts';

/** What is left for it must hold this try, the pause after it and another one. */
const NEEDED_MS = 120_000;

/** Asked where the try begins. */
export function isLastTry(): boolean {
  // Servers of Temporal do not say how often (1.29).
  const { attempt, retryPolicy, scheduledTimestampMs, scheduleToCloseTimeoutMs } = activityInfo();
  const end = scheduledTimestampMs + scheduleToCloseTimeoutMs;
  return attempt >= (retryPolicy?.maximumAttempts ?? MOST_TRIES) || Date.now() + NEEDED_MS > end;
}

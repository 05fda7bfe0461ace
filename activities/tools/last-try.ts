/** Whether Temporal tries the activity that runs now again, where it fails. */
import { activityInfo } from '@temporalio/activity';

/** What is left for it must hold this try, the pause after it and another one. */
const NEEDED_MS = 120_000;

/** Asked where it begins. What nobody may try again, or has no time for that, ends with it. */
export function isLastTry(): boolean {
  const { attempt, retryPolicy, scheduledTimestampMs, scheduleToCloseTimeoutMs } = activityInfo();
  const end = scheduledTimestampMs + scheduleToCloseTimeoutMs;
  return attempt >= (retryPolicy?.maximumAttempts ?? 1) || Date.now() + NEEDED_MS > end;
}

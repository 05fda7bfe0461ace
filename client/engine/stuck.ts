/** Reads from a run's history why its workflow tasks fail. */
import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface FailingTask {
  readonly at: string;
  readonly message: string;
}

/**
 * Returns the failed workflow task since the last completed one; undefined if none has failed.
 * Temporal's history keeps only the first of several attempts.
 */
export function failingTask({ events = [] }: Pick<History, 'events'>): FailingTask | undefined {
  const since = (events ?? []).slice(
    (events ?? []).findLastIndex((event) => event.workflowTaskCompletedEventAttributes) + 1,
  );
  // A reset makes a task fail too, and names the run that it creates.
  const failed = since.findLast(({ workflowTaskFailedEventAttributes: task }) => task && !task.newRunId);
  const message = failed?.workflowTaskFailedEventAttributes?.failure?.message;
  if (failed === undefined) return undefined;
  return { at: new Date(tsToMs(failed.eventTime)).toISOString(), message: sentenceOf(message ?? '') };
}

/** Extracts Temporal's own sentence from what the native part of the SDK prints around it. */
export function sentenceOf(message: string): string {
  return /\[TMPRL\d+\][^"]*/.exec(message)?.[0] ?? message;
}

/** Why the workflow tasks of a run come to nothing, as its history says. */
import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface FailingTask {
  readonly at: string;
  readonly message: string;
}

/** The failed workflow task since the last one that was done; undefined if none has failed. Temporal keeps only the first of several attempts. */
export function failingTask({ events = [] }: Pick<History, 'events'>): FailingTask | undefined {
  const since = (events ?? []).slice(
    (events ?? []).findLastIndex((event) => event.workflowTaskCompletedEventAttributes) + 1,
  );
  // A reset makes a task fail too, and says which run it makes.
  const failed = since.findLast(({ workflowTaskFailedEventAttributes: task }) => task && !task.newRunId);
  const message = failed?.workflowTaskFailedEventAttributes?.failure?.message;
  if (failed === undefined) return undefined;
  return { at: new Date(tsToMs(failed.eventTime)).toISOString(), message: sentenceOf(message ?? '') };
}

/** Temporal's own sentence, of what the native part of the SDK prints around it. */
export function sentenceOf(message: string): string {
  return /\[TMPRL\d+\][^"]*/.exec(message)?.[0] ?? message;
}

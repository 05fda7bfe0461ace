/**
 * Lets a stretch run other activities inside of it: they see the same facts of Temporal, and a cancellation and
 * heartbeats of their own.
 */
import { asyncLocalStorage, Context } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/common';
import type { ActivityCancellationDetailsHolder } from '@temporalio/common/lib/activity-cancellation-details.js';

/**
 * @param signal ends the inner activity; its reason is a `CancelledFailure`
 * @returns what the inner activity returns
 */
export async function within<T>(outer: Context, signal: AbortSignal, activity: () => Promise<T>): Promise<T> {
  const cancelled = new Promise<never>((_, reject) => {
    const told = (): void => reject(reasonOf(signal));
    if (signal.aborted) told();
    else signal.addEventListener('abort', told, { once: true });
  });
  // Nobody need wait for it.
  cancelled.catch(() => undefined);
  // Says if the worker shuts down, which only the SDK knows; it may become known later.
  const details: ActivityCancellationDetailsHolder = Object.defineProperty({}, 'details', {
    get: () => outer.cancellationDetails,
  });
  // The record of the stretch is its heartbeat: those of inner activities would replace it.
  const silent = (): void => undefined;
  const inner = new Context(outer.info, cancelled, signal, silent, undefined, outer.log, outer.metricMeter, details);
  return await asyncLocalStorage.run(inner, activity);
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new CancelledFailure('The activity was cancelled.');
}

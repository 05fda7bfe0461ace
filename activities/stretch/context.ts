/**
 * Lets a stretch run other activities inside of it: they see the same facts of Temporal, and a cancellation and
 * heartbeats of their own.
 */
import { setMaxListeners } from 'node:events';
import { asyncLocalStorage, Context } from '@temporalio/activity';
import { CancelledFailure } from '@temporalio/common';
import type { ActivityCancellationDetailsHolder } from '@temporalio/common/lib/activity-cancellation-details.js';

/**
 * @param signal ends the inner activity; its reason is a `CancelledFailure`
 * @param hear takes the details of its heartbeats, which go no further: the record of the stretch is its heartbeat, and
 * those of inner activities would replace it
 * @returns what the inner activity returns
 */
export async function within<T>(
  outer: Context,
  signal: AbortSignal,
  activity: () => Promise<T>,
  hear: (details: unknown) => void = () => undefined,
): Promise<T> {
  // Node takes the eleventh call of a turn for a leak, and warns.
  setMaxListeners(0, signal);
  let told = (): void => undefined;
  const cancelled = new Promise<never>((_, reject) => {
    told = () => reject(reasonOf(signal));
    if (signal.aborted) told();
    else signal.addEventListener('abort', told, { once: true });
  });
  // Nobody need wait for it.
  cancelled.catch(() => undefined);
  // Says if the worker shuts down, which only the SDK knows; it may become known later.
  const details: ActivityCancellationDetailsHolder = Object.defineProperty({}, 'details', {
    get: () => outer.cancellationDetails,
  });
  const inner = new Context(outer.info, cancelled, signal, hear, undefined, outer.log, outer.metricMeter, details);
  try {
    return await asyncLocalStorage.run(inner, activity);
  } finally {
    // The signal outlives the activity, and many others share it.
    signal.removeEventListener('abort', told);
  }
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new CancelledFailure('The activity was cancelled.');
}

/**
 * Handing over to the next execution in the middle of a turn, and what becomes of tasks where that is interrupted, or fails.
 *
 * 1. A run that was stopped does not hand over any more: what its servers work on is followed here to its end, or asked about once more
 *    and cancelled (docs/adr/0041).
 * 2. A call is settled by one loop at a time: who has let go of it for the next execution is awaited before it is taken up again.
 */
import { isCancellation } from '@temporalio/workflow';
import { tasksOf } from '../../domain/legacy-2025/tasks.ts';
import type { LiveRun } from './live-run.ts';
import { act, settleAll } from './turn.ts';

/** Where handing over was interrupted by a cancellation: what servers work on is followed to its end here. */
export async function endedHere(live: LiveRun): Promise<void> {
  await takenBack(live);
  await act(live);
}

export function isToEndHere(live: LiveRun, error: unknown): boolean {
  return isCancellation(error) && tasksOf(live.run).length > 0;
}

/** Of a run that fails: nobody will hear what its tasks come to. */
export async function withdrawTasks(live: LiveRun): Promise<void> {
  live.work.cancel();
  live.flights.cancel();
  await takenBack(live);
  // What fails is not to be cancelled, and what waits for people or servers is.
  await live.work.run(async () => void (await settleAll(live)));
}

async function takenBack(live: LiveRun): Promise<void> {
  await live.settling;
  live.rolling = false;
}

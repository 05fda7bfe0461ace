/**
 * Decides what becomes of server tasks when handing over to the next execution in mid-turn is interrupted or the run
 * fails.
 *
 * 1. A stopped run no longer hands over. It follows the tasks of its servers to their end, or polls each once more and
 *    cancels it (docs/adr/0041).
 * 2. One loop at a time settles a call. The loop that has let go of a call for the next execution is awaited before
 *    another takes it.
 */
import { isCancellation } from '@temporalio/workflow';
import { tasksOf } from '../../domain/legacy-2025/tasks.ts';
import type { LiveRun } from './live-run.ts';
import { act, settleAll } from './turn.ts';

/** Follows the tasks to their end in this execution, after a cancellation has interrupted handing over. */
export async function endedHere(live: LiveRun): Promise<void> {
  await live.takeBack();
  await act(live);
}

export function isToEndHere(live: LiveRun, error: unknown): boolean {
  return isCancellation(error) && tasksOf(live.run).length > 0;
}

/** Withdraws the tasks of a run that fails: nobody will hear their results. */
export async function withdrawTasks(live: LiveRun): Promise<void> {
  live.work.cancel();
  live.flights.cancel();
  await live.takeBack();
  // The settling itself must not be cancelled, although everything that waits for people or servers is.
  await live.work.run(async () => void (await settleAll(live)));
}

/** Finds workflow tasks of a history that the SDK may take for one where it rebuilds the run for an update (docs/adr/0087). */
import type { Recorded } from '../../../workers/replay/recorded-history.ts';

type Events = NonNullable<Extract<Recorded, { kind: 'history' }>['history']['events']>;

/**
 * Returns the ids of completions that the next task follows at once. The SDK's core joins both if the task before left
 * no command either (`find_end_index_of_next_wft_seq`); ours never leave it to that.
 */
export function joinedTasks(events: Events): readonly number[] {
  return events
    .filter(
      ({ workflowTaskCompletedEventAttributes: completed }, index) =>
        completed && events[index + 1]?.workflowTaskScheduledEventAttributes,
    )
    .map(({ eventId }) => Number(eventId));
}

/** Finds workflow tasks of a history that the SDK takes for one where it rebuilds the run for an update (docs/adr/0087). */
import type { Recorded } from '../../../workers/replay/recorded-history.ts';

type Events = NonNullable<Extract<Recorded, { kind: 'history' }>['history']['events']>;
type Event = Events[number];

/**
 * Returns the ids of completions that the next task follows at once, where the task before left no command either: the
 * rule of the SDK's core (`find_end_index_of_next_wft_seq`).
 */
export function joinedTasks(events: Events): readonly number[] {
  const joined: number[] = [];
  let sawCommand = false;
  for (const [index, event] of events.entries()) {
    if (isOfCommand(event)) sawCommand = true;
    if (!event.workflowTaskCompletedEventAttributes) continue;
    if (!sawCommand && isFollowedAtOnce(event, events[index + 1])) joined.push(Number(event.eventId));
    sawCommand = false;
  }
  return joined;
}

/** True of the completion of a task that left nothing, and that the next one follows at once. */
export function isFollowedAtOnce(event: Event, next: Event | undefined): boolean {
  return Boolean(event.workflowTaskCompletedEventAttributes && next?.workflowTaskScheduledEventAttributes);
}

/** True of what our workflows leave that is not the end of an execution (`is_command_event` of the SDK's core). */
function isOfCommand(event: Event): boolean {
  const left =
    event.activityTaskScheduledEventAttributes ??
    event.activityTaskCancelRequestedEventAttributes ??
    event.markerRecordedEventAttributes ??
    event.timerStartedEventAttributes ??
    event.timerCanceledEventAttributes ??
    event.upsertWorkflowSearchAttributesEventAttributes ??
    event.workflowPropertiesModifiedEventAttributes ??
    event.workflowExecutionUpdateAcceptedEventAttributes ??
    event.workflowExecutionUpdateCompletedEventAttributes;
  return left !== undefined && left !== null;
}

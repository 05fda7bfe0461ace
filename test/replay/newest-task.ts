/**
 * A recorded history as a worker has it while one of its workflow tasks is the newest: cut behind the start of that
 * task, with the updates that came with it. History tells of those only once the task is done; here they stand before
 * it, as a reset leaves them.
 */
import type { History } from '../../workers/replay/recorded-history.ts';

type Event = NonNullable<History['events']>[number];

/** Number of temporal.api.enums.v1. */
const UPDATE_ADMITTED = 47;

/** One for each task that was done. */
export function cutAtTasks({ events: all }: History): History[] {
  const events = all ?? [];
  return events.flatMap(({ workflowTaskCompletedEventAttributes: done }, at) => {
    const scheduled = events[Number(done?.scheduledEventId) - 1];
    const started = events[Number(done?.startedEventId) - 1];
    if (scheduled === undefined || started === undefined) return [];
    const before = events.slice(0, at).filter((event) => event !== scheduled && event !== started);
    const next = events.findIndex((event, index) => index > at && event.workflowTaskScheduledEventAttributes);
    const updates = events.slice(at + 1, next === -1 ? events.length : next).flatMap(admitted);
    return [numbered([...before, ...updates], scheduled, started)];
  });
}

/** The same with the clock of the server set back by an hour before the last task. */
export function setBack({ events: all }: History): History {
  const events = all ?? [];
  const at = events.findLastIndex(({ workflowTaskScheduledEventAttributes: task }) => task);
  const earlier = ({ eventTime, ...event }: Event): object => ({
    ...event,
    eventTime: { ...eventTime, seconds: Number(eventTime?.seconds) - 3_600 },
  });
  return { events: events.map((event, index) => (index < at ? event : earlier(event))) };
}

function admitted({ eventTime, workflowExecutionUpdateAcceptedEventAttributes: accepted }: Event): object[] {
  const request = accepted?.acceptedRequest;
  // What a reset left stands admitted already, and is accepted without its request.
  if (!request?.input) return [];
  return [{ eventTime, eventType: UPDATE_ADMITTED, workflowExecutionUpdateAdmittedEventAttributes: { request } }];
}

function numbered(before: readonly object[], scheduled: Event, started: Event): History {
  const scheduledEventId = before.length + 1;
  const workflowTaskStartedEventAttributes = { ...started.workflowTaskStartedEventAttributes, scheduledEventId };
  const events: readonly object[] = [...before, scheduled, { ...started, workflowTaskStartedEventAttributes }].map(
    (event, index) => ({ ...event, eventId: index + 1 }),
  );
  // Sound: protobuf takes plain numbers where its own messages hold Long.
  return { events } as History;
}

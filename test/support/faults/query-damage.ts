/**
 * Damages valid histories as a query does (docs/adr/0045): a workflow task is removed, and its commands then
 * stand under the next one. If the next task begins with an update, no worker can replay the history.
 */
import type { History } from '../../../workers/replay/recorded-history.ts';
import { commandsOf, type HistoryEvent, historyOf } from '../../../workers/replay/replayed-run.ts';

const TIMED_OUT = 8;
const START_TO_CLOSE = 1;

/** The task was given to a worker that never did it, or had not come when its messages were taken in. */
export type Form = 'never done' | 'not come';

export function damagedByQuery({ events: given }: History, form: Form): History {
  const events = given ?? [];
  const tasks = events.flatMap((event, index) => (event.workflowTaskCompletedEventAttributes ? [index] : []));
  const hasUpdate = (task: number): boolean =>
    commandsOf(events, task).some((event) => event.workflowExecutionUpdateAcceptedEventAttributes);
  const at = tasks.findIndex(
    (task, index) =>
      index > 0 && commandsOf(events, task).length > 0 && !hasUpdate(task) && hasUpdate(tasks[index + 1] ?? task),
  );
  const [lost, next] = [tasks[at], tasks[at + 1]];
  if (lost === undefined || next === undefined) throw new Error('no task to take out');
  const commands = commandsOf(events, lost);
  const { scheduledEventId, startedEventId } = events[lost]?.workflowTaskCompletedEventAttributes ?? {};
  const isOf = ({ eventId }: HistoryEvent): boolean =>
    Number(eventId) === Number(scheduledEventId) || Number(eventId) === Number(startedEventId);
  const timedOut = {
    eventId: events[lost]?.eventId,
    eventTime: events[lost]?.eventTime,
    eventType: TIMED_OUT,
    workflowTaskTimedOutEventAttributes: { scheduledEventId, startedEventId, timeoutType: START_TO_CLOSE },
  };
  const before = events.slice(0, lost);
  return renumbered([
    ...(form === 'never done' ? [...before, timedOut] : before.filter((event) => !isOf(event))),
    ...events.slice(lost + 1 + commands.length, next + 1),
    ...commands.map((event) =>
      withIds(event, (field, id) => (field === 'workflowTaskCompletedEventId' ? events[next]?.eventId : id)),
    ),
    ...events.slice(next + 1),
  ]);
}

function renumbered(events: readonly object[]): History {
  // Sound: these are events of a history, one of which was made in their shape.
  const known = events as readonly HistoryEvent[];
  const numbers = new Map(known.map(({ eventId }, index) => [Number(eventId), index + 1]));
  const own = known.map((event, index) => ({
    ...withIds(event, (_field, id) => numbers.get(Number(id)) ?? id),
    eventId: index + 1,
  }));
  // Sound: as above; an encoded id may be a number.
  return historyOf(own as unknown as readonly HistoryEvent[]);
}

/** Replaces the references to other events. */
export function withIds(event: HistoryEvent, to: (field: string, id: unknown) => unknown): HistoryEvent {
  const entries = Object.entries(event).map(([name, attributes]: [string, unknown]): [string, unknown] => {
    if (!name.endsWith('EventAttributes') || typeof attributes !== 'object' || attributes === null)
      return [name, attributes];
    const own = Object.entries(attributes).map(([field, value]: [string, unknown]): [string, unknown] => [
      field,
      field.endsWith('EventId') && Number(value) > 0 ? to(field, value) : value,
    ]);
    return [name, Object.fromEntries(own) as unknown];
  });
  // Sound: the result is the same event with other numbers.
  return Object.fromEntries(entries) as HistoryEvent;
}

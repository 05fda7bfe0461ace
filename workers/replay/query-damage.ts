/**
 * Repairs a history that a query has damaged. It puts back the workflow task in which the worker took in what
 * the query brought (docs/adr/0013, 0045).
 *
 * Pure. The worker went on from a task that the history lacks. It took in events before their own task had come, with
 * the clock of the task before, or of one that was given to another worker and never done. Its commands are then
 * recorded under the next real task. With the missing task in its place, the history replays.
 */
import { commandsOf, type HistoryEvent } from './replayed-run.ts';

type Time = HistoryEvent['eventTime'];

/** A place where a task may be missing. */
export interface Guess {
  /** Event id of the completed workflow task under which its commands are recorded. */
  readonly task: number;
  /** Newest event that the missing task took in. */
  readonly took: number;
  /** Event whose clock it had: the start of a workflow task. */
  readonly clock: number;
  readonly events: readonly HistoryEvent[];
}

/** Candidates for the newest event that a query may have brought: a task has few. */
const MOST_TAKEN = 4;
const MOST_COMMANDS = 12;

/**
 * @param task index of the completed workflow task
 * @param thorough tries every split of the commands between the two tasks, not the likeliest alone
 * @param end index after the part that is repaired
 */
export function* guessesAt(
  events: readonly HistoryEvent[],
  task: number,
  end: number,
  thorough: boolean,
): Generator<Guess> {
  const before = events.findLastIndex((event, index) => index < task && isCompleted(event));
  const started = startOf(events, task);
  if (before === -1 || started === -1) return;
  const first = before + 1 + commandsOf(events, before).length;
  const commands = commandsOf(events, task);
  const parts = partings(commands, thorough);
  for (const lost of between(first, started).filter((index) => isAttempt(events[index])))
    for (const count of parts) yield given(events, { task, lost, count, end });
  const taken = between(first, started).filter((index) => !isOfTask(events[index]));
  for (const took of taken.slice(-MOST_TAKEN).toReversed())
    for (const count of parts) yield unseen(events, { task, before, first, took, started, count, end });
}

/** Returns how many commands may belong to the missing task: usually all before the real one's first update. */
function partings(commands: readonly HistoryEvent[], thorough: boolean): readonly number[] {
  const update = commands.findIndex((event) => event.workflowExecutionUpdateAcceptedEventAttributes);
  const likely = [update === -1 ? commands.length : update, commands.length];
  const all = thorough ? between(0, Math.min(commands.length, MOST_COMMANDS)).toReversed() : [];
  return [...new Set([...likely, ...all])];
}

interface Parting {
  readonly task: number;
  readonly count: number;
  readonly end: number;
}

/** Guesses that the newest task had been given to a worker that never did it. */
function given(
  events: readonly HistoryEvent[],
  { task, lost, count, end }: Parting & { readonly lost: number },
): Guess {
  const commands = commandsOf(events, task);
  const attempt = attemptOf(events[lost]);
  const done = completedLike(events[task], attempt.scheduledEventId, attempt.startedEventId, events[lost]?.eventTime);
  const mended = [
    ...events.slice(0, lost),
    done,
    ...under(commands.slice(0, count), done),
    ...events.slice(lost + 1, task + 1),
    ...commands.slice(count),
    ...events.slice(task + 1 + commands.length, end),
  ];
  const took = events.findLastIndex((event, index) => index < lost && !isOfTask(event));
  return {
    task: idOf(events[task]),
    took: idOf(events[took]),
    clock: Number(attempt.startedEventId),
    events: renumbered(mended),
  };
}

/** Guesses that no task existed yet for the events that were taken in. */
function unseen(
  events: readonly HistoryEvent[],
  at: Parting & { readonly before: number; readonly first: number; readonly took: number; readonly started: number },
): Guess {
  const { task, before, first, took, started, count, end } = at;
  const commands = commandsOf(events, task);
  const clock = events[startOf(events, before)];
  const region = between(first, started);
  const taken = region.filter((index) => index <= took && !isOfTask(events[index]));
  const rest = region.filter((index) => !taken.includes(index));
  const scheduled = {
    ...events.find(({ eventId }) => Number(eventId) === Number(attemptOf(events[task]).scheduledEventId)),
    eventId: MADE.scheduled,
    eventTime: beside(clock?.eventTime),
  };
  const start = startedLike(events[started], beside(clock?.eventTime));
  const done = completedLike(events[task], MADE.scheduled, MADE.started, beside(clock?.eventTime));
  const eventsAt = (indexes: readonly number[]): HistoryEvent[] => indexes.flatMap((index) => events[index] ?? []);
  const mended = [
    ...events.slice(0, first),
    ...eventsAt(taken),
    // Sound: events of the history with other ids and times.
    scheduled as unknown as HistoryEvent,
    start,
    done,
    ...under(commands.slice(0, count), done),
    ...eventsAt(rest),
    ...events.slice(started, task + 1),
    ...commands.slice(count),
    ...events.slice(task + 1 + commands.length, end),
  ];
  return { task: idOf(events[task]), took: idOf(events[took]), clock: idOf(clock), events: renumbered(mended) };
}

/** Returns a time that is equal to a workflow, which knows milliseconds, and another to the clock guard. */
function beside(time: Time): Time {
  const nanos = time?.nanos ?? 0;
  return { ...time, nanos: nanos % 1_000_000 === 999_999 ? nanos - 1 : nanos + 1 };
}

/** Ids of the inserted events, which no history has. */
const MADE = { scheduled: 1_000_000_001, started: 1_000_000_002, completed: 1_000_000_003 } as const;

type Attempt = NonNullable<HistoryEvent['workflowTaskCompletedEventAttributes']>;

function startedLike(event: HistoryEvent | undefined, eventTime: Time): HistoryEvent {
  const attributes = { ...event?.workflowTaskStartedEventAttributes, scheduledEventId: MADE.scheduled };
  const made = { ...event, eventId: MADE.started, eventTime, workflowTaskStartedEventAttributes: attributes };
  // Sound: a replay encodes ids whether they are numbers or Longs.
  return made as unknown as HistoryEvent;
}

function completedLike(
  event: HistoryEvent | undefined,
  scheduledEventId: unknown,
  startedEventId: unknown,
  eventTime: Time,
): HistoryEvent {
  const attributes = { ...event?.workflowTaskCompletedEventAttributes, scheduledEventId, startedEventId };
  const made = { ...event, eventId: MADE.completed, eventTime, workflowTaskCompletedEventAttributes: attributes };
  // Sound: as above.
  return made as unknown as HistoryEvent;
}

/** Returns the commands as those of another task. */
function under(commands: readonly HistoryEvent[], { eventId }: HistoryEvent): HistoryEvent[] {
  return commands.map((event) =>
    changed(event, (field, id) => (field === 'workflowTaskCompletedEventId' ? eventId : id)),
  );
}

/** Renumbers events in their order, with every reference to another event. */
function renumbered(events: readonly HistoryEvent[]): HistoryEvent[] {
  const numbers = new Map(events.map(({ eventId }, index) => [Number(eventId), index + 1]));
  // Sound: as above.
  return events.map((event, index) => ({
    ...changed(event, (_field, id) => numbers.get(Number(id)) ?? id),
    eventId: index + 1,
  })) as unknown as HistoryEvent[];
}

const REFERENCE = /EventId$/;

/** Returns the event with other references in its attributes. */
function changed(event: HistoryEvent, to: (field: string, id: unknown) => unknown): HistoryEvent {
  const entries = Object.entries(event).map(([name, attributes]: [string, unknown]): [string, unknown] => {
    if (!name.endsWith('EventAttributes') || typeof attributes !== 'object' || attributes === null)
      return [name, attributes];
    const own = Object.entries(attributes).map(([field, value]: [string, unknown]): [string, unknown] => [
      field,
      REFERENCE.test(field) && Number(value) > 0 ? to(field, value) : value,
    ]);
    return [name, Object.fromEntries(own) as unknown];
  });
  // Sound: the same event with other numbers in it.
  return Object.fromEntries(entries) as HistoryEvent;
}

function startOf(events: readonly HistoryEvent[], task: number): number {
  const { startedEventId } = attemptOf(events[task]);
  return events.findIndex(({ eventId }) => Number(eventId) === Number(startedEventId));
}

function attemptOf(event: HistoryEvent | undefined): Pick<Attempt, 'scheduledEventId' | 'startedEventId'> {
  return (
    event?.workflowTaskCompletedEventAttributes ??
    event?.workflowTaskTimedOutEventAttributes ??
    event?.workflowTaskFailedEventAttributes ??
    {}
  );
}

function isCompleted(event: HistoryEvent | undefined): boolean {
  return Boolean(event?.workflowTaskCompletedEventAttributes);
}

/** True for a task that was given to a worker and came to nothing; a reset is none. */
function isAttempt(event: HistoryEvent | undefined): boolean {
  const failed = event?.workflowTaskFailedEventAttributes;
  if (failed) return !failed.newRunId;
  return Number(event?.workflowTaskTimedOutEventAttributes?.startedEventId ?? 0) > 0;
}

const TASK_EVENTS = ['Scheduled', 'Started', 'Completed', 'TimedOut', 'Failed'] as const;

function isOfTask(event: HistoryEvent | undefined): boolean {
  return TASK_EVENTS.some((kind) => Boolean(event?.[`workflowTask${kind}EventAttributes`]));
}

function between(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);
}

function idOf(event: HistoryEvent | undefined): number {
  return Number(event?.eventId ?? 0);
}

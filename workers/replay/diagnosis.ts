/**
 * Finds why a history does not replay: this build differs, or a query broke the run.
 *
 * 1. A query is named only with proof: with the missing task put in, this build replays what it did not replay before.
 * 2. Without proof, the build that wrote the task that does not fit shows what is likely, and the text says that it is
 *    no more.
 */
import { defined } from '../../contracts/defined.ts';
import { ownBundle } from '../bundle.ts';
import type { History } from './recorded-history.ts';
import type { ReplayOptions } from './replay.ts';
import { commandsOf, failureIn, type HistoryEvent, type Soundness, upToLastTask } from './replayed-run.ts';

export type Cause =
  /** Another build wrote what this one would do otherwise. */
  | 'build'
  /** A query made a worker go on from a workflow task that history does not have. */
  | 'query'
  | 'unknown';

export interface Diagnosis {
  readonly cause: Cause;
  readonly certainty: 'shown' | 'likely';
  readonly text: string;
  /** Event id of the completed workflow task that does not fit. */
  readonly task: number;
  /** Build that wrote it, as Temporal reports it. */
  readonly writtenBy?: string;
}

/** Earlier tasks to try, since a broken one may show only later: the newest, besides all that came late. */
const EARLIER_TASKS = 12;
const NEAREST_TASKS = 3;
const MOST_REPLAYS = 120;

export async function diagnosisOf(
  workflowId: string,
  { events: given = [] }: Pick<History, 'events'>,
  { task }: Extract<Soundness, { kind: 'part' }>,
  options: ReplayOptions,
): Promise<Diagnosis> {
  const events = given ?? [];
  const index = events.findIndex(({ eventId }) => Number(eventId) === task);
  const writer = writerOf(events[index]);
  const found = { task, ...defined({ writtenBy: writer }) };
  const guess = await missingTask(workflowId, events, index, options);
  if (guess !== undefined) return { cause: 'query', certainty: 'shown', ...found, text: queryText(guess) };
  const likely = (cause: Cause, text: string): Diagnosis => ({ cause, certainty: 'likely', ...found, text });
  const done = `did the workflow task of event ${task}`;
  if (writer === undefined) return likely('unknown', `Nobody can say who ${done}, and no query explains it. ${KEEP}`);
  if (writer === (await (ownBuild ??= ownBundle())).buildId)
    return likely('unknown', `This same build ${done}, and would do otherwise now; no query explains it. ${KEEP}`);
  const unnamed = UNNAMED.test(writer) ? 'Its worker named no build of ours, so it may have been this very one. ' : '';
  return likely(
    'build',
    `This build is at fault, as far as can be told: another one (${writer}) ${done}, this one would do otherwise, and no query explains it. ${unnamed}Replayed with that build it is certain; do not deploy this one over the run.`,
  );
}

const KEEP = 'Keep the history for a report.';

function queryText({ task, took, clock }: Guess): string {
  return `A query damaged the run: it made a worker take in event ${took} with the clock of event ${clock}, and go on from there. With a workflow task in that place, which history does not have, this build replays event ${task} and what follows. The build is not at fault, and nobody changed anything.`;
}

/** Returns the first guess with which the task, and the results of its commands, replay. */
async function missingTask(
  workflowId: string,
  events: readonly HistoryEvent[],
  culprit: number,
  options: ReplayOptions,
): Promise<Guess | undefined> {
  const tasks = events.flatMap((event, index) => (event.workflowTaskCompletedEventAttributes ? [index] : []));
  const at = tasks.indexOf(culprit);
  const end = tasks[at + 1] ?? upToLastTask(events).length;
  let left = MOST_REPLAYS;
  const earlier = tasks.slice(0, at).toReversed();
  // A query goes to another worker when the run's own is away, and the tasks of that one mostly time out.
  const late = earlier.filter((task) => cameLate(events, task));
  // The nearest come first, so that many late ones do not use up the tries.
  const likely = [culprit, ...earlier.slice(0, NEAREST_TASKS), ...late, ...earlier.slice(0, EARLIER_TASKS)];
  for (const task of new Set(likely))
    for (const guess of guessesAt(events, task, end, task === culprit)) {
      if ((left -= 1) < 0) return undefined;
      if ((await failureIn(workflowId, guess.events, options)) === undefined) return guess;
    }
  return undefined;
}

/** True if the task timed out before a worker did it, at a worker or on the way to one. */
function cameLate(events: readonly HistoryEvent[], task: number): boolean {
  const before = events.findLastIndex((event, index) => index < task && event.workflowTaskCompletedEventAttributes);
  return events.slice(before + 1, task).some((event) => event.workflowTaskTimedOutEventAttributes);
}

function writerOf(event: HistoryEvent | undefined): string | undefined {
  const done = event?.workflowTaskCompletedEventAttributes;
  return done?.deploymentVersion?.buildId || done?.workerVersion?.buildId || undefined;
}

/** Kept, since bundling takes seconds. */
let ownBuild: ReturnType<typeof ownBundle> | undefined;

/** The SDK's own name for a worker without one: a hash that differs with the folder of its bundle. */
const UNNAMED = /^@temporalio\/worker@/;

// The code below puts in the workflow task that the history lacks (docs/adr/0045): a worker took in events before their
// own task had come, with the clock of the task before, or of one that was given to another worker and never done. Its
// commands are recorded under the next real task.

type Time = HistoryEvent['eventTime'];

interface Guess {
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
function* guessesAt(events: readonly HistoryEvent[], task: number, end: number, thorough: boolean): Generator<Guess> {
  const before = events.findLastIndex((event, index) => index < task && isCompleted(event));
  const started = startOf(events, task);
  if (before === -1 || started === -1) return;
  const first = before + 1 + commandsOf(events, before).length;
  const commands = commandsOf(events, task);
  const parts = partings(commands, thorough);
  for (const lost of between(first, started).filter((index) => isAttempt(events[index])))
    for (const count of parts) yield handedOut(events, { task, lost, count, end });
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
function handedOut(events: readonly HistoryEvent[], at: Parting & { readonly lost: number }): Guess {
  const { task, lost } = at;
  const { scheduledEventId, startedEventId } = attemptOf(events[lost]);
  const done = completedLike(events[task], scheduledEventId, startedEventId, events[lost]?.eventTime);
  const mended = mendedBy(events, at, events.slice(0, lost), done, events.slice(lost + 1, task + 1));
  const took = events.findLastIndex((event, index) => index < lost && !isOfTask(event));
  return { task: idOf(events[task]), took: idOf(events[took]), clock: Number(startedEventId), events: mended };
}

/** Guesses that no task existed yet for the events that were taken in. */
function unseen(
  events: readonly HistoryEvent[],
  at: Parting & { readonly before: number; readonly first: number; readonly took: number; readonly started: number },
): Guess {
  const { task, before, first, took, started } = at;
  const clock = events[startOf(events, before)];
  const region = between(first, started);
  const taken = region.filter((index) => index <= took && !isOfTask(events[index]));
  const rest = region.filter((index) => !taken.includes(index));
  const eventTime = beside(clock?.eventTime);
  const ofTask = events.find(({ eventId }) => Number(eventId) === Number(attemptOf(events[task]).scheduledEventId));
  const scheduled = madeLike(ofTask, { eventId: MADE.scheduled, eventTime });
  const attributes = { ...events[started]?.workflowTaskStartedEventAttributes, scheduledEventId: MADE.scheduled };
  const start = madeLike(events[started], {
    eventId: MADE.started,
    eventTime,
    workflowTaskStartedEventAttributes: attributes,
  });
  const done = completedLike(events[task], MADE.scheduled, MADE.started, eventTime);
  const eventsAt = (indexes: readonly number[]): HistoryEvent[] => indexes.flatMap((index) => events[index] ?? []);
  const earlier = [...events.slice(0, first), ...eventsAt(taken), scheduled, start];
  const mended = mendedBy(events, at, earlier, done, [...eventsAt(rest), ...events.slice(started, task + 1)]);
  return { task: idOf(events[task]), took: idOf(events[took]), clock: idOf(clock), events: mended };
}

/** Returns the events with the missing task `done` behind `earlier`, and the first `count` commands under it. */
function mendedBy(
  events: readonly HistoryEvent[],
  { task, count, end }: Parting,
  earlier: readonly HistoryEvent[],
  done: HistoryEvent,
  later: readonly HistoryEvent[],
): HistoryEvent[] {
  const commands = commandsOf(events, task);
  const rest = events.slice(task + 1 + commands.length, end);
  const moved = under(commands.slice(0, count), done);
  return renumbered([...earlier, done, ...moved, ...later, ...commands.slice(count), ...rest]);
}

/** Returns a time that is equal to a workflow, which knows milliseconds, and another to the clock guard. */
function beside(time: Time): Time {
  const nanos = time?.nanos ?? 0;
  return { ...time, nanos: nanos % 1_000_000 === 999_999 ? nanos - 1 : nanos + 1 };
}

/** Ids of the inserted events, which no history has. */
const MADE = { scheduled: 1_000_000_001, started: 1_000_000_002, completed: 1_000_000_003 } as const;

type Attempt = NonNullable<HistoryEvent['workflowTaskCompletedEventAttributes']>;

function madeLike(event: HistoryEvent | undefined, over: object): HistoryEvent {
  // A replay encodes ids whether they are numbers or Longs.
  return { ...event, ...over };
}

function completedLike(
  event: HistoryEvent | undefined,
  scheduledEventId: unknown,
  startedEventId: unknown,
  eventTime: Time,
): HistoryEvent {
  const attributes = { ...event?.workflowTaskCompletedEventAttributes, scheduledEventId, startedEventId };
  return madeLike(event, { eventId: MADE.completed, eventTime, workflowTaskCompletedEventAttributes: attributes });
}

function under(commands: readonly HistoryEvent[], { eventId }: HistoryEvent): HistoryEvent[] {
  return commands.map((event) =>
    changed(event, (field, id) => (field === 'workflowTaskCompletedEventId' ? eventId : id)),
  );
}

/** Renumbers events in their order, with every reference to another event. */
function renumbered(events: readonly HistoryEvent[]): HistoryEvent[] {
  const numbers = new Map(events.map(({ eventId }, index) => [Number(eventId), index + 1]));
  return events.map((event, index) =>
    madeLike(
      changed(event, (_field, id) => numbers.get(Number(id)) ?? id),
      { eventId: index + 1 },
    ),
  );
}

const REFERENCE = /EventId$/;

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

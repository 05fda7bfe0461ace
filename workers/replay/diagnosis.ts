/**
 * Finds why a history does not replay: this build differs, or a query broke the run.
 *
 * 1. A query is named only with proof: with the missing task put in, this build replays what it did not replay before.
 * 2. Without proof, the build that wrote the task that does not fit shows what is likely, and the text says that it is
 *    no more.
 */
import { defined } from '../../contracts/defined.ts';
import { bundleWorkflows, readBuiltBundle } from '../bundle.ts';
import { type Guess, guessesAt } from './query-damage.ts';
import type { History } from './recorded-history.ts';
import type { ReplayOptions } from './replay.ts';
import { failureIn, type HistoryEvent, type Soundness, upToLastTask } from './replayed-run.ts';

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
  /** The history with the missing task put in, if a query is the cause. */
  readonly mended?: readonly HistoryEvent[];
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
  if (guess !== undefined)
    return { cause: 'query', certainty: 'shown', ...found, text: queryText(guess), mended: guess.events };
  const unknown = { cause: 'unknown', certainty: 'likely', ...found } as const;
  if (writer === undefined)
    return {
      ...unknown,
      text: `Nobody can say who did the workflow task of event ${task}, and no query explains it. ${KEEP}`,
    };
  if (writer === (await (buildId ??= thisBuild())))
    return {
      ...unknown,
      text: `This same build did the workflow task of event ${task}, and would do otherwise now; no query explains it. ${KEEP}`,
    };
  const unnamed = UNNAMED.test(writer) ? 'Its worker named no build of ours, so it may have been this very one. ' : '';
  const text = `This build is at fault, as far as can be told: another one (${writer}) did the workflow task of event ${task}, this one would do otherwise, and no query explains it. ${unnamed}Replayed with that build it is certain; do not deploy this one over the run.`;
  return { ...unknown, cause: 'build', text };
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

/** The build id of workers of this code (`cli/verbs/worker.ts`), kept since bundling takes seconds. */
let buildId: Promise<string> | undefined;

async function thisBuild(): Promise<string> {
  const bundle = (await readBuiltBundle()) ?? (await bundleWorkflows());
  return bundle.buildId;
}

/** The SDK's own name for a worker without one: a hash that differs with the folder of its bundle. */
const UNNAMED = /^@temporalio\/worker@/;

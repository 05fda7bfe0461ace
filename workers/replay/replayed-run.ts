/**
 * Reads runs that no worker can continue from their histories: how far a history replays on this build, and what the
 * run would answer to queries there. `semantics.ts` compares; `diagnosis.ts` says why a history is not sound.
 *
 * 1. A history is cut only where a worker receives it: after the start of a workflow task.
 * 2. A history is sound if it replays and does what was recorded. Every part of a sound history is sound.
 */
import type { InjectedSinks } from '@temporalio/worker';
import { CountersignError } from '../../contracts/errors.ts';
import { READING_QUEUE } from '../../contracts/names.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { LedgerPage, RunState } from '../../contracts/schemas/run-state.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import type { ReaderSinks } from '../../workflows/interceptors/replay-reader.ts';
import { bundleWorkflows, type MadeBundle, workflowFile } from '../bundle.ts';
import { deedReader, type History } from './recorded-history.ts';
import { isKeyless, replayHistories, type ReplayOptions } from './replay.ts';
import { CommandLog, compareHistories, underRunId } from './semantics.ts';

export type HistoryEvent = NonNullable<History['events']>[number];

/** Makes the bundle of the workers with the module that shows commands and answers. */
export async function bundleForReading(workflowsPath?: string, fileOf?: typeof workflowFile): Promise<MadeBundle> {
  const shown = ['interceptors/replay-inspector', 'interceptors/replay-reader'].map((name) => workflowFile(name));
  return await bundleWorkflows(workflowsPath, shown, fileOf);
}

/** Answers to queries; one is absent if the workflow has no such query, or has not come so far. */
export interface Answers {
  readonly state?: RunState;
  readonly requests?: readonly ApprovalRequest[];
  readonly ledger?: LedgerPage;
  readonly snapshot?: CatalogSnapshot;
}

export type Soundness =
  | { readonly kind: 'whole' }
  | {
      readonly kind: 'part';
      /** Event id of the completion of the first workflow task that no longer fits. */
      readonly task: number;
      /** Why the history up to and including that task does not replay. */
      readonly error: Error;
    };

/**
 * @param options `bundle` is one of `bundleForReading`
 * @throws CountersignError `REPLAY_FAILED` if no part of it replays, `CONFIG_INVALID` if a key of it is not here
 */
export async function soundnessOf(workflowId: string, history: History, options: ReplayOptions): Promise<Soundness> {
  const events = history.events ?? [];
  const whole = await failureIn(workflowId, upToLastTask(events), options);
  if (whole === undefined) return { kind: 'whole' };
  // Another key must not pass for another build, nor for a run that is to be reset.
  if (isKeyless(whole)) throw whole;
  // A machine that is short of time or memory may fail a replay once. Without this the last task would be at fault, and
  // a query would be "shown" by any change of it that replays.
  if ((await failureIn(workflowId, upToLastTask(events), options)) === undefined) return { kind: 'whole' };
  const tasks = events.flatMap((event, index) => (event.workflowTaskCompletedEventAttributes ? [index] : []));
  // The history is sound up to task `low`, and not up to task `high`; the index after the last task stands for the
  // whole.
  let [low, high, error] = [-1, tasks.length, whole];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const failure = await failureIn(workflowId, events.slice(0, tasks[middle]), options);
    if (failure === undefined) low = middle;
    else [high, error] = [middle, failure];
  }
  const task = tasks[low];
  if (task === undefined) {
    const message = `Nothing of the history of ${workflowId} replays with this build: is it of another service, or of other encryption keys? ${whole.message}`;
    throw new CountersignError('REPLAY_FAILED', message, { runId: workflowId }, { cause: whole });
  }
  return { kind: 'part', task: Number(events[task]?.eventId), error };
}

/** Returns why a history does not replay, or does otherwise; undefined if it is sound. */
export async function failureIn(
  workflowId: string,
  events: readonly HistoryEvent[],
  options: ReplayOptions,
): Promise<Error | undefined> {
  const recorded = [{ kind: 'history', name: workflowId, workflowId, history: historyOf(events) }] as const;
  for await (const { error } of compareHistories(recorded, options)) return error;
  return undefined;
}

/** Keeps what a run last said to queries in a replay on `READING_QUEUE`. */
export class AnswerLog {
  readonly sinks: InjectedSinks<ReaderSinks> = {
    replayReader: {
      answers: {
        callDuringReplay: true,
        fn: (_info, told) => {
          // Sound: the answers of this build's query handlers, as JSON.
          this.last = Object.fromEntries(
            Object.entries(told).map(([name, json]) => [name, JSON.parse(json)]),
          ) as Answers;
        },
      },
    },
  };
  last: Answers = {};
}

/**
 * Returns what the run would answer, up to the given task of its history, or after all of it.
 *
 * @param runId the living Temporal run, which digests contain
 * @param task as `Soundness` has it
 * @param options `bundle` is one of `bundleForReading`
 */
export async function answersOf(
  workflowId: string,
  { history, runId, task }: { readonly history: History; readonly runId: string; readonly task?: number },
  options: ReplayOptions,
): Promise<{ readonly answers: Answers; readonly upTo: number }> {
  const events = history.events ?? [];
  const part = task === undefined ? upToLastTask(events) : events.filter(({ eventId }) => Number(eventId) < task);
  const own = await underRunId(historyOf(part), runId, deedReader(options));
  const log = new AnswerLog();
  const recorded = [{ kind: 'history', name: workflowId, workflowId, history: own }] as const;
  const reading = { ...options, name: READING_QUEUE, sinks: { ...new CommandLog().sinks, ...log.sinks } };
  for await (const { error } of replayHistories(recorded, reading)) if (error !== undefined) throw error;
  return { answers: log.last, upTo: Number(part.at(-1)?.eventId ?? 0) };
}

/**
 * Drops failed attempts at a last task, and events since the last task that belong to the next one. A replay would take
 * those in with the clock of the last task, as a query does that breaks a run.
 */
export function upToLastTask(events: readonly HistoryEvent[]): readonly HistoryEvent[] {
  const done = events.findLastIndex(({ workflowTaskCompletedEventAttributes: completed }) => completed);
  const started = events.findLastIndex(({ workflowTaskStartedEventAttributes: begun }) => begun);
  if (started > done) return events.slice(0, started + 1);
  return events.slice(0, done + 1 + commandsOf(events, done).length);
}

/** Returns the events that a completed workflow task has made. */
export function commandsOf(events: readonly HistoryEvent[], task: number): readonly HistoryEvent[] {
  const completed = Number(events[task]?.eventId);
  const end = events.findIndex((event, index) => index > task && !isMadeBy(event, completed));
  return events.slice(task + 1, end === -1 ? events.length : end);
}

function isMadeBy(event: HistoryEvent, completed: number): boolean {
  if (event.workflowExecutionUpdateAcceptedEventAttributes || event.workflowExecutionUpdateCompletedEventAttributes)
    return true;
  return Object.values(event).some(
    (attributes: unknown) =>
      isFields(attributes) && Number(attributes['workflowTaskCompletedEventId'] ?? -1) === completed,
  );
}

export function historyOf(events: readonly HistoryEvent[]): History {
  return { events: [...events] };
}

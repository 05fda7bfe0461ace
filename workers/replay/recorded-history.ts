/**
 * Reads histories from files, and brings what a run did, from its history, and what this code would do, from its
 * commands, into one shape for comparison. The JSON is that of the SDK's `historyToJSON`, of `temporal workflow show -o
 * json`, or of the download of Temporal UI (not decoded).
 *
 * 1. A file that is no history is reported, never skipped: a replay that skips what it cannot read proves nothing.
 * 2. Only effects are compared. Summaries, memo and search attributes may improve under a waiting run; Temporal checks
 *    that they are written.
 * 3. A run has no local activities: history would not hold their input.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { CountersignError } from '../../contracts/errors.ts';
import { payloadConverter } from '../../contracts/payload-converter.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Command } from '../../workflows/interceptors/replay-inspector.ts';
import { createCodec } from '../codec.ts';

export type History = ReturnType<typeof historyFromJSON>;

export type Recorded =
  | { readonly kind: 'history'; readonly name: string; readonly workflowId: string; readonly history: History }
  | { readonly kind: 'unreadable'; readonly name: string; readonly workflowId: string; readonly error: Error };

/** Such a file beside a history holds what was sent to the run at its end; see `test/replay`. */
const NOT_A_HISTORY = '.inputs.json';

/**
 * @param paths files, and folders whose `*.json` are taken, subfolders included
 * @throws CountersignError `USAGE` if a path does not exist, or there is nothing to replay
 */
export async function historyFiles(paths: readonly string[]): Promise<string[]> {
  const files = (await Promise.all(paths.map(filesOf))).flat();
  if (files.length > 0) return files;
  const message = `There is no history (*.json) in ${paths.join(', ')}; name files or folders that hold some.`;
  throw new CountersignError('USAGE', message);
}

export async function* recordedHistories(files: readonly string[]): AsyncGenerator<Recorded> {
  for (const file of files) yield await readHistory(file);
}

export async function readHistory(file: string): Promise<Recorded> {
  try {
    const history = historyFromJSON(JSON.parse(await readFile(file, 'utf8')));
    const first = history.events?.[0]?.workflowExecutionStartedEventAttributes;
    if (first === undefined || first === null) throw new TypeError('does not begin with the start of a workflow');
    // Servers before 1.21 do not record the id.
    return { kind: 'history', name: file, workflowId: first.workflowId || basename(file, '.json'), history };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const refusal = new Error(`not a history: ${reason}`, { cause: error });
    return { kind: 'unreadable', name: file, workflowId: '', error: refusal };
  }
}

async function filesOf(path: string): Promise<string[]> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) {
    const message = `There is no file or folder ${path}. Name histories of \`temporal workflow show -o json\`, or a folder of them; those of the namespace are checked by: countersign replay --live`;
    throw new CountersignError('USAGE', message, { path });
  }
  if (!found.isDirectory()) return [path];
  const names = await readdir(path, { recursive: true });
  return names
    .filter((name) => name.endsWith('.json') && !name.endsWith(NOT_A_HISTORY))
    .toSorted()
    .map((name) => join(path, name));
}

export interface Deed {
  /** The same key in history and commands. */
  readonly key: string;
  /** A name for people: `activity callTool`. */
  readonly what: string;
  readonly parts: Readonly<Record<string, unknown>>;
}

export interface RecordedDeed extends Deed {
  readonly eventId: number;
}

type Payloads = readonly Payload[] | null | undefined;
type HistoryEvent = NonNullable<History['events']>[number];
type Failure = NonNullable<NonNullable<HistoryEvent['workflowExecutionFailedEventAttributes']>['failure']>;

/** Replaces the name of the run's own queue, which differs in a replay worker. */
const OWN_QUEUE = 'the queue of the run';

export class DeedReader {
  readonly #codecs: readonly Pick<PayloadCodec, 'decode'>[];

  constructor(codecs: readonly Pick<PayloadCodec, 'decode'>[]) {
    this.#codecs = codecs;
  }

  async recorded({ events }: History): Promise<RecordedDeed[]> {
    const ownQueue = events?.[0]?.workflowExecutionStartedEventAttributes?.taskQueue?.name;
    const instances = new Map<number, string>();
    const deeds: RecordedDeed[] = [];
    for (const event of events ?? []) {
      const eventId = Number(event.eventId);
      const accepted = event.workflowExecutionUpdateAcceptedEventAttributes;
      if (accepted !== null && accepted !== undefined) instances.set(eventId, accepted.protocolInstanceId ?? '');
      const deed = await this.#ofEvent(event, ownQueue, instances);
      if (deed !== undefined) deeds.push({ ...deed, eventId });
    }
    return deeds;
  }

  /** @param ownQueue name of the run's queue in the replay worker */
  async planned(commands: readonly Command[], ownQueue: string): Promise<Deed[]> {
    const deeds: Deed[] = [];
    for (const command of commands) {
      const deed = await this.#ofCommand(command, ownQueue);
      if (deed !== undefined) deeds.push(deed);
    }
    return deeds;
  }

  async #ofEvent(
    event: HistoryEvent,
    ownQueue: string | null | undefined,
    instances: ReadonlyMap<number, string>,
  ): Promise<Deed | undefined> {
    const activity = event.activityTaskScheduledEventAttributes;
    if (activity) {
      const { activityType, input, taskQueue } = activity;
      const queue = taskQueue?.name === ownQueue ? OWN_QUEUE : taskQueue?.name;
      return await this.#activity(activity, activityType?.name, input?.payloads, queue);
    }
    const timer = event.timerStartedEventAttributes;
    if (timer) return timerOf(timer.timerId, timer.startToFireTimeout);
    const answer = event.workflowExecutionUpdateCompletedEventAttributes;
    if (answer) {
      const { outcome, acceptedEventId } = answer;
      const id = instances.get(Number(acceptedEventId));
      return await this.#answer(id, outcome?.failure, outcome?.success?.payloads);
    }
    const next = event.workflowExecutionContinuedAsNewEventAttributes;
    if (next) return await this.#next(next.workflowType?.name, next.input?.payloads);
    const completed = event.workflowExecutionCompletedEventAttributes;
    if (completed) return ending('completion', { result: await this.values(completed.result?.payloads) });
    const failed = event.workflowExecutionFailedEventAttributes;
    if (failed) return ending('failure', { failure: await this.#failure(failed.failure) });
    return event.workflowExecutionCanceledEventAttributes ? ending('cancellation', {}) : undefined;
  }

  async #ofCommand(command: Command, ownQueue: string): Promise<Deed | undefined> {
    const activity = command.scheduleActivity;
    if (activity) {
      const queue = activity.taskQueue === ownQueue ? OWN_QUEUE : activity.taskQueue;
      return await this.#activity(activity, activity.activityType, activity.arguments, queue);
    }
    const timer = command.startTimer;
    if (timer) return timerOf(timer.seq, timer.startToFireTimeout);
    const answer = command.updateResponse;
    if (answer?.completed || answer?.rejected)
      return await this.#answer(answer.protocolInstanceId, answer.rejected, answer.completed ? [answer.completed] : []);
    const next = command.continueAsNewWorkflowExecution;
    if (next) return await this.#next(next.workflowType, next.arguments);
    const completed = command.completeWorkflowExecution;
    if (completed)
      return ending('completion', { result: await this.values(completed.result ? [completed.result] : []) });
    const failed = command.failWorkflowExecution;
    if (failed) return ending('failure', { failure: await this.#failure(failed.failure) });
    return command.cancelWorkflowExecution ? ending('cancellation', {}) : undefined;
  }

  async #activity(
    activity: Scheduled,
    type: string | null | undefined,
    input: Payloads,
    queue: string | null | undefined,
  ): Promise<Deed> {
    const { activityId, retryPolicy, priority } = activity;
    const parts = {
      type,
      input: await this.values(input),
      ...timeouts(activity),
      maximumAttempts: retryPolicy?.maximumAttempts ?? 0,
      queue,
      priority: turnOf(priority),
    };
    return { key: `activity ${activityId}`, what: `activity ${type}`, parts };
  }

  async #answer(id: string | null | undefined, failure: Failure | null | undefined, payloads: Payloads): Promise<Deed> {
    const parts = failure ? { failure: await this.#failure(failure) } : { answer: await this.values(payloads) };
    return { key: `answer ${id}`, what: 'answer to an update', parts };
  }

  async #next(type: string | null | undefined, input: Payloads): Promise<Deed> {
    return ending('continue-as-new', { type, input: await this.values(input) });
  }

  /** Returns the value of each payload; a codec leaves alone a payload that it did not make. */
  async values(payloads: Payloads): Promise<unknown[]> {
    let decoded = [...(payloads ?? [])];
    for (const codec of this.#codecs.toReversed()) decoded = await codec.decode(decoded);
    return decoded.map((payload) => payloadConverter.fromPayload<unknown>(payload));
  }

  async #failure(failure: Failure | null | undefined): Promise<object> {
    const info = failure?.applicationFailureInfo;
    return { message: failure?.message, type: info?.type, details: await this.values(info?.details?.payloads) };
  }
}

export function deedReader({ config }: { readonly config: Pick<Config, 'encryption'> }): DeedReader {
  return new DeedReader([createCodec(config)]);
}

function timerOf(id: unknown, duration: Duration): Deed {
  return { key: `timer ${String(id)}`, what: 'timer', parts: { milliseconds: milliseconds(duration) } };
}

/** A run ends once, so all kinds of end share one key. */
function ending(kind: string, parts: Deed['parts']): Deed {
  return { key: 'end', what: 'end of the execution', parts: { kind, ...parts } };
}

/** An absent value equals an empty one: these are Temporal's defaults. */
function turnOf(priority: Scheduled['priority']): object | undefined {
  const { priorityKey, fairnessKey, fairnessWeight } = priority ?? {};
  // The wire format has single precision.
  return priorityKey ? { priorityKey, fairnessKey, fairnessWeight: Math.fround(fairnessWeight ?? 0) } : undefined;
}

/** An activity as events and commands alike have it. */
type Scheduled = NonNullable<HistoryEvent['activityTaskScheduledEventAttributes'] | Command['scheduleActivity']>;
type Duration = Scheduled['startToCloseTimeout'];

function timeouts(activity: Scheduled): object {
  // Temporal records the shorter wait for both.
  const waits = [activity.scheduleToStartTimeout, activity.scheduleToCloseTimeout].map(milliseconds).filter(Boolean);
  return {
    startToCloseMs: milliseconds(activity.startToCloseTimeout),
    heartbeatMs: milliseconds(activity.heartbeatTimeout),
    ...(waits.length === 0 ? {} : { scheduleToStartMs: Math.min(...waits) }),
  };
}

/** Seconds are a `Long`, of this realm or of the sandbox, or a number, depending on how the history was read. */
function milliseconds(duration: Duration): number {
  return Number((duration?.seconds ?? 0).toString()) * 1_000 + (duration?.nanos ?? 0) / 1_000_000;
}

/**
 * Replays histories and compares what this code would send, wait for, answer and hand on with what is recorded.
 * Temporal's own replay compares the kinds and order of commands, not their content, such as arguments and deadlines.
 *
 * 1. Equality is exact: a change of what a waiting run does needs a patch (`workflows/versions.ts`).
 * 2. A message names event and path, never a value: values are prompts and arguments.
 * 3. A run that was reset is replayed once for each Temporal run id that it had: arguments and digests hold the id.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import type { InjectedSinks } from '@temporalio/worker';
import { CountersignError } from '../../contracts/errors.ts';
import type { Command, InspectorSinks } from '../../workflows/interceptors/replay-inspector.ts';
import { type DeedReader, deedReader, type History, type Recorded, type RecordedDeed } from './recorded-history.ts';
import { Replayer, type ReplayOptions, type ReplayOutcome } from './replay.ts';

/** Collects what a replay worker with a bundle of `bundleForReading` would do. */
export class CommandLog {
  readonly sinks: InjectedSinks<InspectorSinks> = {
    replayInspector: {
      commands: {
        callDuringReplay: true,
        fn: ({ taskQueue }, commands) => {
          this.#commands.push(...commands);
          this.#queue = taskQueue;
        },
      },
    },
  };
  #commands: Command[] = [];
  #queue = '';

  /** Returns all commands since the last call. */
  take(): { readonly commands: readonly Command[]; readonly queue: string } {
    const commands = this.#commands;
    this.#commands = [];
    return { commands, queue: this.#queue };
  }
}

/** @param options `bundle` is one of `bundleForReading` */
export async function* compareHistories(
  histories: AsyncIterable<Recorded> | Iterable<Recorded>,
  options: ReplayOptions,
): AsyncGenerator<ReplayOutcome> {
  const log = new CommandLog();
  const reader = deedReader(options);
  const replayer = new Replayer({ ...options, sinks: { ...options.sinks, ...log.sinks } });
  try {
    for await (const recorded of histories) yield await compared(recorded, replayer, log, reader);
  } finally {
    await replayer.close();
  }
}

async function compared(
  recorded: Recorded,
  replayer: Replayer,
  log: CommandLog,
  reader: DeedReader,
): Promise<ReplayOutcome> {
  if (recorded.kind === 'unreadable') return await replayer.replay(recorded);
  const { name, workflowId, history } = recorded;
  for (const life of livesOf(history)) {
    const own = life.runId === undefined ? history : await underRunId(history, life.runId, reader);
    const { error: failed, ...outcome } = await replayer.replay({ ...recorded, history: own });
    const done = log.take();
    const error = failed ?? (await differenceIn(history, life, done, reader));
    if (error !== undefined) return { ...outcome, history, error };
  }
  return { name, workflowId, history };
}

interface Life {
  /** Absent for the first: a replay has the run id with which the history begins. */
  readonly runId?: string;
  /** Ids of the events between which its own stand. */
  readonly from: number;
  readonly to: number;
}

/** A reset begins a new Temporal run at the workflow task that it fails (`RESET_WORKFLOW`). */
function livesOf({ events }: History): Life[] {
  const resets = (events ?? []).flatMap(({ eventId, workflowTaskFailedEventAttributes: failed }) =>
    failed?.newRunId ? [{ runId: failed.newRunId, from: Number(eventId) }] : [],
  );
  const starts = [{ from: 0 }, ...resets];
  return starts.map((start, index) => ({ ...start, to: starts[index + 1]?.from ?? Number.MAX_SAFE_INTEGER }));
}

/** Returns the Temporal run id that the run of a history has now. */
export function livingRunId(history: History): string | undefined {
  const began = history.events?.[0]?.workflowExecutionStartedEventAttributes?.originalExecutionRunId;
  return livesOf(history).at(-1)?.runId ?? (began || undefined);
}

/**
 * Returns the history as the worker of that Temporal run replays it. The SDK takes a replay's run id from the first
 * event, which has the original one, so that a replayed run never knows that it was reset. A reset run counts none of
 * the earlier runs (`domain/state/run.ts`), so they are removed instead.
 */
export async function underRunId(history: History, runId: string, reader: DeedReader): Promise<History> {
  const [first, ...rest] = history.events ?? [];
  const started = first?.workflowExecutionStartedEventAttributes;
  if (first === undefined || !started || started.originalExecutionRunId === runId) return history;
  const [spec, carry] = await reader.values(started.input?.payloads);
  const input = isFields(carry)
    ? { payloads: [spec, { ...carry, earlier: [] }].map((value) => defaultPayloadConverter.toPayload(value)) }
    : started.input;
  const own = { ...started, originalExecutionRunId: runId, input };
  // Sound: the same message with two fields changed.
  return { events: [{ ...first, workflowExecutionStartedEventAttributes: own }, ...rest] } as History;
}

async function differenceIn(
  history: History,
  { from, to }: Life,
  { commands, queue }: ReturnType<CommandLog['take']>,
  reader: DeedReader,
): Promise<Error | undefined> {
  const deeds = await reader.recorded(history);
  if (deeds.length > 0 && commands.length === 0)
    return new TypeError('the bundle does not show what it does; make it with bundleForReading');
  const planned = new Map((await reader.planned(commands, queue)).map((deed) => [deed.key, deed]));
  for (const deed of deeds) {
    if (deed.eventId <= from || deed.eventId >= to) continue;
    const now = planned.get(deed.key);
    const path = now === undefined ? '' : firstDifference(deed.parts, now.parts, '');
    if (path !== undefined) return difference(deed, path);
  }
  return undefined;
}

function difference({ eventId, what }: RecordedDeed, path: string): Error {
  const how = path === '' ? 'is not done any more' : `differs at ${path}`;
  const message = `Event ${eventId}, ${what}, ${how}: this code would do otherwise than the run has done.`;
  return new CountersignError('REPLAY_FAILED', message, { eventId, path });
}

function firstDifference(one: unknown, other: unknown, path: string): string | undefined {
  if (Object.is(one, other)) return undefined;
  if (!isFields(one) || !isFields(other) || Array.isArray(one) !== Array.isArray(other)) return path;
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const at = Array.isArray(one) ? `${path}[${key}]` : `${path}${path === '' ? '' : '.'}${key}`;
    const found = firstDifference(one[key], other[key], at);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Lists, too. */
function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

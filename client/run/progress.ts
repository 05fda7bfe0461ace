/**
 * Reads what no history tells: how far calls in flight have come, as their servers report it
 * (`notifications/progress`), and which steps are tried again, and why. Temporal lists it with pending activities.
 *
 * 1. Any namespace writer can send heartbeats, and fail an activity with any text. What does not fit the shape is left
 *    out; texts are cut here, and escaped where they are shown.
 * 2. A step that cannot be read is left out; it ends nothing.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { decodeOptionalFailureToOptionalError } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES, STRETCHING } from '../../contracts/names.ts';
import type { ReportedProgress } from '../../contracts/wire/stretch.ts';
import { progressIn, progressOfStretch } from '../../domain/shapes/reported-progress.ts';
import { bounded } from '../../domain/text/escape.ts';
import { readable } from '../engine/executions.ts';

export type CallProgress = ReportedProgress;

/** Interval between two readings while a call is in flight. */
const EVERY_MS = 1_000;

/** Activities that wait for a server's answer. */
const WAITING: readonly string[] = [ACTIVITIES.callTool, ACTIVITIES.resumeCall, ...STRETCHING];

export interface Underway {
  /** True if any activity is pending. */
  readonly waits: boolean;
  readonly progress: readonly CallProgress[];
  readonly retries: readonly Retry[];
}

/** Reads what is in flight in one execution; what cannot be read is left out. */
export async function readProgress(client: Client, workflowId: string, runId: string): Promise<Underway> {
  const described = await client.workflow.getHandle(workflowId, runId).describe();
  const { raw } = described;
  const pending = (raw.pendingActivities ?? []).filter(({ activityType }) =>
    WAITING.includes(activityType?.name ?? ''),
  );
  const told = await Promise.all(
    pending.map(async ({ activityType, heartbeatDetails }) =>
      progressOf(activityType?.name ?? '', await readable(client, heartbeatDetails?.payloads)),
    ),
  );
  return {
    // Every pending activity counts here: any step may fail, and no history event tells of that.
    waits: (raw.pendingActivities ?? []).length > 0,
    progress: told.flat(),
    retries: await retriesIn(client, described),
  };
}

function progressOf(activity: string, details: unknown): readonly CallProgress[] {
  if (STRETCHING.includes(activity)) return progressOfStretch(details);
  const told = progressIn(details);
  return told === undefined ? [] : [told];
}

/** Reports until `waiting` ends, or nothing is in flight any more. A failed reading ends no watch. */
export async function tellWhile(
  waiting: Promise<void>,
  look: () => Promise<Underway>,
  tell: (underway: Underway) => void,
  everyMs = EVERY_MS,
): Promise<void> {
  const ended = waiting.then(
    () => true,
    () => true,
  );
  for (;;) {
    const underway = await look().catch(() => undefined);
    if (underway !== undefined) tell(underway);
    // When something new starts, a history event is written, and that event ends the waiting. No timer is left behind
    // that would keep the process alive.
    if (underway?.waits === false || (await Promise.race([ended, pause(everyMs, false, { ref: false })]))) return;
  }
}

/** Leaves out what was told of a call before. */
export function tellingOnce<Told extends { readonly callId: string }>(
  wordOf: (each: Told) => unknown,
  tell: (news: readonly Told[]) => void,
): (all: readonly Told[]) => void {
  const told = new Map<string, unknown>();
  return (all) => {
    const news = all.filter((each) => told.get(each.callId) !== wordOf(each));
    for (const each of news) told.set(each.callId, wordOf(each));
    if (news.length > 0) tell(news);
  };
}

/** A step that a run tries again. */
export interface Retry {
  /** Description of the step, in our words: `list tools of files`, `turn 3: main`. */
  readonly step: string;
  /** Code of the last failed attempt; `INTERNAL` if it has none. */
  readonly code: string;
  readonly message: string;
  /** Number of the next attempt, or of the one in flight; at least 2. */
  readonly attempt: number;
  /** Time of the first attempt, if it is found. */
  readonly since?: string;
  /** Time of the next attempt; absent while one is in flight. */
  readonly next?: string;
}

const LONGEST_MESSAGE = 300;
const LONGEST_STEP = 200;
/** Number of events read from the end of the history: a pending activity was scheduled not long ago. */
const LOOKED_AT = 200;

type Described = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['describe']>>;
type Pending = NonNullable<Described['raw']['pendingActivities']>[number];

export async function readRetries(client: Client, workflowId: string, runId?: string): Promise<readonly Retry[]> {
  return await retriesIn(client, await client.workflow.getHandle(workflowId, runId).describe());
}

async function retriesIn(client: Client, { raw, workflowId, runId }: Described): Promise<readonly Retry[]> {
  const failing = (raw.pendingActivities ?? []).filter(({ lastFailure }) => lastFailure);
  if (failing.length === 0) return [];
  const begun = await scheduled(client, { workflowId, runId }).catch(() => new Map<string, Begun>());
  return await Promise.all(failing.map(async (each) => await retryOf(client, each, begun.get(each.activityId ?? ''))));
}

async function retryOf({ options }: Client, pending: Pending, begun: Begun | undefined): Promise<Retry> {
  const { activityType, attempt, lastFailure, nextAttemptScheduleTime } = pending;
  const error = await decodeOptionalFailureToOptionalError(options.loadedDataConverter, lastFailure).catch(
    () => undefined,
  );
  const { code = 'INTERNAL', message = error?.message ?? '' } = codedFailureIn(error) ?? {};
  const next = nextAttemptScheduleTime ? tsToMs(nextAttemptScheduleTime) : 0;
  return {
    step: bounded(begun?.summary ?? activityType?.name ?? 'a step', LONGEST_STEP),
    code,
    message: bounded(message, LONGEST_MESSAGE),
    attempt: attempt ?? 0,
    ...defined({ since: begun?.at, next: next > 0 ? new Date(next).toISOString() : undefined }),
  };
}

interface Begun {
  readonly at: string | undefined;
  readonly summary: string | undefined;
}

async function scheduled(
  client: Client,
  execution: { readonly workflowId: string; readonly runId: string },
): Promise<Map<string, Begun>> {
  const { connection, options } = client;
  const { history } = await connection.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: options.namespace,
    execution,
    maximumPageSize: LOOKED_AT,
  });
  const begun = new Map<string, Begun>();
  for (const { activityTaskScheduledEventAttributes: activity, eventTime, userMetadata } of history?.events ?? []) {
    if (!activity?.activityId) continue;
    const summary = userMetadata?.summary && (await readable(client, [userMetadata.summary]));
    begun.set(activity.activityId, {
      at: eventTime ? new Date(tsToMs(eventTime)).toISOString() : undefined,
      summary: typeof summary === 'string' ? summary : undefined,
    });
  }
  return begun;
}

/** Leaves out what was told before. A step is told again when it fails for another reason. */
export function tellingRetriesOnce(tell: (news: readonly Retry[]) => void): (all: readonly Retry[]) => void {
  let told = new Set<string>();
  return (all) => {
    const keyOf = ({ step, code, message }: Retry): string => JSON.stringify([step, code, message]);
    const news = all.filter((retry) => !told.has(keyOf(retry)));
    told = new Set(all.map(keyOf));
    if (news.length > 0) tell(news);
  };
}

/**
 * Reads how far calls in flight have come, as their servers report it (`notifications/progress`).
 * The reports stand in the heartbeats that Temporal shows while an activity runs; history does not have them.
 *
 * 1. Any namespace writer can send heartbeats. A report that does not fit the shape is left out before anybody reads
 *    it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { ACTIVITIES, STRETCHING } from '../../contracts/names.ts';
import type { ReportedProgress } from '../../contracts/wire/stretch.ts';
import { progressIn, progressOfStretch } from '../../domain/shapes/reported-progress.ts';
import { readable } from '../engine/executions.ts';
import { retriesIn, type Retry } from './retries.ts';

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

/**
 * Reports until `waiting` ends, however it ends, or until nothing is in flight any more. A failed reading ends no
 * watch.
 */
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
  const over = new AbortController();
  const nextLook = async (): Promise<boolean> =>
    await pause(everyMs, false, { signal: over.signal }).catch(() => false);
  try {
    for (;;) {
      const underway = await look().catch(() => undefined);
      if (underway !== undefined) tell(underway);
      // When something new starts, a history event is written, and that event ends the waiting.
      if (underway?.waits === false || (await Promise.race([ended, nextLook()]))) return;
    }
  } finally {
    // A timer that nobody waits for would keep the process alive.
    over.abort();
  }
}

/** Leaves out what was reported before. */
export function tellingOnce(
  onProgress: (news: readonly CallProgress[]) => void,
): (all: readonly CallProgress[]) => void {
  const told = new Map<string, number>();
  return (all) => {
    const news = all.filter(({ callId, progress }) => told.get(callId) !== progress);
    for (const { callId, progress } of news) told.set(callId, progress);
    if (news.length > 0) onProgress(news);
  };
}

/**
 * How far calls have come that a worker waits for, as their servers say it (`notifications/progress`): of the heartbeats that
 * Temporal shows while an activity runs. History does not have it.
 *
 * 1. Whoever may write to the namespace sends heartbeats: what does not fit is left out, before anybody reads it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { retriesIn, type Retry } from './retries.ts';
import { isFields, isFiniteNumber } from '../domain/field-checks.ts';
import { isCallId, isInstant } from '../domain/messages.ts';

export interface CallProgress {
  readonly callId: string;
  /** When the call left. */
  readonly sentAt: string;
  /** In the server's own units; it only grows. */
  readonly progress: number;
  /** Where the server says how much there is. */
  readonly total?: number;
}

/** How often Temporal is asked while a call is under way. */
const EVERY_MS = 1_000;

/** Activities that wait for a server's answer. */
const WAITING = ['callTool', 'resumeCall'];

export interface Underway {
  /** Whether anything is under way at all. */
  readonly waits: boolean;
  readonly progress: readonly CallProgress[];
  readonly retries: readonly Retry[];
}

/** What is under way in one execution; what cannot be read of it is left out. */
export async function readProgress(client: Client, workflowId: string, runId: string): Promise<Underway> {
  const described = await client.workflow.getHandle(workflowId, runId).describe();
  const { raw } = described;
  const pending = (raw.pendingActivities ?? []).filter(({ activityType }) =>
    WAITING.includes(activityType?.name ?? ''),
  );
  const told = await Promise.all(
    pending.map(async ({ heartbeatDetails }) => {
      const payloads = heartbeatDetails?.payloads ?? [];
      const [details] = await decodeArrayFromPayloads(client.options.loadedDataConverter, payloads).catch(() => []);
      return progressIn(details);
    }),
  );
  return {
    // Any step may fail, and no event tells of it.
    waits: (raw.pendingActivities ?? []).length > 0,
    progress: told.filter((each) => each !== undefined),
    retries: await retriesIn(client, described),
  };
}

function progressIn(details: unknown): CallProgress | undefined {
  if (!isFields(details)) return undefined;
  const { callId, sentAt, progress, total } = details;
  if (!isCallId(callId) || !isInstant(sentAt) || !isFiniteNumber(progress)) return undefined;
  return { callId, sentAt, progress, ...(isFiniteNumber(total) ? { total } : {}) };
}

/** Told until `waiting` is over, however it ends, or nothing is under way any more; that it cannot be had ends no watch. */
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
      // What begins to be under way is an event, which ends the waiting.
      if (underway?.waits === false || (await Promise.race([ended, nextLook()]))) return;
    }
  } finally {
    // A timer that nobody waits for would keep the process.
    over.abort();
  }
}

/** Without what was told before. */
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

/**
 * How far calls have come that a worker waits for, as their servers say it (`notifications/progress`): of the heartbeats that
 * Temporal shows while an activity runs. History does not have it.
 */
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { isFields } from '../domain/field-checks.ts';

export interface CallProgress {
  readonly callId: string;
  /** When the call left. */
  readonly sentAt: string;
  /** In the server's own units; it only grows. */
  readonly progress: number;
  /** Where the server says how much there is. */
  readonly total?: number;
}

/** Activities that wait for a server's answer. */
const WAITING = ['callTool', 'resumeCall'];

export interface Underway {
  /** Whether a worker waits for an answer at all. */
  readonly waits: boolean;
  readonly progress: readonly CallProgress[];
}

/** What is under way in one execution; what cannot be read of it is left out. */
export async function readProgress(client: Client, workflowId: string, runId: string): Promise<Underway> {
  const { raw } = await client.workflow.getHandle(workflowId, runId).describe();
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
  return { waits: pending.length > 0, progress: told.filter((each) => each !== undefined) };
}

function progressIn(details: unknown): CallProgress | undefined {
  if (!isFields(details)) return undefined;
  const { callId, sentAt, progress, total } = details;
  if (typeof callId !== 'string' || typeof sentAt !== 'string' || typeof progress !== 'number') return undefined;
  return { callId, sentAt, progress, ...(typeof total === 'number' ? { total } : {}) };
}

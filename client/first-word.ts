/**
 * The first word of a worker about a run that was just started: its spec is taken, or the reason why it is not.
 *
 * 1. Read from the run's history by long poll: nothing is asked of the run, and nothing is left in it.
 */
import { isGrpcDeadlineError } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { CountersignError } from '../contracts/errors.ts';
import { Discovery } from '../contracts/schemas/tool.ts';
import type { Engine } from './engine.ts';
import { unserved } from './pollers.ts';

/** `temporal.api.enums.v1.EventType`. */
const WORKFLOW_EXECUTION_FAILED = 3;
const WORKFLOW_TASK_COMPLETED = 7;
const CLOSED: ReadonlySet<number> = new Set([2, 4, 21, 27, 28]);

/** Of `allowedTools`, what a server does not have. */
export interface MissingTool {
  readonly server: string;
  readonly name: string;
  /** Names of that server that may be meant. */
  readonly near: readonly string[];
}

export interface FirstWord {
  /** `taken`: a worker has it, and has not said yet whether the spec is taken. `silent`: no worker has it. */
  readonly word: 'listed' | 'prepared' | 'failed' | 'taken' | 'silent';
  readonly missing: readonly MissingTool[];
}

export async function firstWord(engine: Engine, workflowId: string, withinMs: number): Promise<FirstWord> {
  const end = Date.now() + withinMs;
  let word: FirstWord['word'] = 'silent';
  const missing: MissingTool[] = [];
  let nextPageToken: Uint8Array | undefined;
  for (;;) {
    const token = nextPageToken;
    const left = Math.max(1, end - Date.now());
    const page = await engine.read(workflowId, async () => await poll(engine, workflowId, token), left);
    for (const event of page?.history?.events ?? []) {
      const { eventType } = event;
      if (eventType === WORKFLOW_EXECUTION_FAILED) return { word: 'failed', missing };
      // A model is asked once all tools are listed.
      const scheduled = event.activityTaskScheduledEventAttributes?.activityType?.name;
      if (scheduled === 'modelStep' || CLOSED.has(eventType ?? 0)) return { word: 'listed', missing };
      const payloads = event.activityTaskCompletedEventAttributes?.result?.payloads;
      // The first activity of a run is the one that checks its spec; those after it list tools.
      if (payloads) {
        word = 'prepared';
        missing.push(...missingIn(await decoded(engine, payloads)));
      }
      if (eventType === WORKFLOW_TASK_COMPLETED && word === 'silent') word = 'taken';
    }
    nextPageToken = page?.nextPageToken ?? undefined;
    if (page === undefined || nextPageToken === undefined || nextPageToken.length === 0 || Date.now() >= end)
      return { word, missing };
  }
}

async function poll({ client: { connection, options } }: Engine, workflowId: string, token: Uint8Array | undefined) {
  try {
    return await connection.workflowService.getWorkflowExecutionHistory({
      namespace: options.namespace,
      execution: { workflowId },
      waitNewEvent: true,
      ...(token === undefined ? {} : { nextPageToken: token }),
    });
  } catch (error) {
    // Silence up to the deadline is an answer, too.
    if (isGrpcDeadlineError(error)) return undefined;
    throw error;
  }
}

async function decoded({ client }: Engine, payloads: Payload[]): Promise<unknown> {
  const [value] = await decodeArrayFromPayloads(client.options.loadedDataConverter, payloads).catch(() => []);
  return value;
}

/** Whoever may write to the namespace can say it, too: what does not fit is left out. */
function missingIn(value: unknown): MissingTool[] {
  const { success, data } = Discovery.safeParse(value);
  if (!success) return [];
  return (data.missing ?? []).map(({ name, near }) => ({ server: data.server, name, near }));
}

/** @throws CountersignError `ENGINE_UNAVAILABLE` where no worker has taken the run */
export async function assertTaken(engine: Engine, workflowId: string, withinMs: number): Promise<FirstWord> {
  const first = await firstWord(engine, workflowId, withinMs);
  if (first.word !== 'silent') return first;
  throw (
    (await unserved(engine.client, workflowId)) ??
    new CountersignError(
      'ENGINE_UNAVAILABLE',
      `No worker has taken run ${workflowId} in ${Math.round(withinMs / 1_000)} s. It waits, and nothing of it is lost; are workers running, and can they keep up?`,
      { runId: workflowId },
    )
  );
}

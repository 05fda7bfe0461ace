/** Lists executions of a namespace, follows those of one workflow, and reads why one is stuck. */
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  type Client,
  isGrpcDeadlineError,
  WorkflowClient,
  type WorkflowExecutionInfo,
  WorkflowFailedError,
  type WorkflowHandle,
} from '@temporalio/client';
import { TerminatedFailure } from '@temporalio/common';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { payloadConverter } from '../../contracts/payload-converter.ts';

/** Lists the executions that a query matches. A memo that cannot be read appears as `Undecodable`, and ends no list. */
export function listExecutions(client: Client, query: string): AsyncIterable<WorkflowExecutionInfo> {
  const { connection, options } = client;
  const { namespace, loadedDataConverter } = options;
  const dataConverter = { ...loadedDataConverter, payloadConverter };
  return new WorkflowClient({ connection, namespace, dataConverter }).list({ query });
}

export type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
export type HistoryEvent = NonNullable<History['events']>[number];

export interface ExecutionChain {
  /** Histories, oldest first. */
  readonly histories: readonly History[];
  /** True if the first execution is among the histories. */
  readonly isWhole: boolean;
}

/**
 * Follows the chain back from the newest execution.
 * @param deadlineMs for each execution; absent: the deadline of the caller
 * @throws Temporal's error, but for an earlier execution that is no longer retained
 */
export async function executionChain(client: Client, workflowId: string, deadlineMs?: number): Promise<ExecutionChain> {
  const inTime = async <T>(read: () => Promise<T>): Promise<T> =>
    deadlineMs === undefined ? await read() : await client.connection.withDeadline(Date.now() + deadlineMs, read);
  const histories: History[] = [];
  const newest = await inTime(async () => await client.workflow.getHandle(workflowId).describe());
  let runId: string | undefined = newest.runId;
  while (runId !== undefined && runId !== '') {
    let history: History;
    const execution = client.workflow.getHandle(workflowId, runId);
    try {
      history = await inTime(async () => await execution.fetchHistory());
    } catch (error) {
      // Temporal forgets the earliest executions first; the newest must exist.
      if (histories.length === 0 || !isNotFound(error)) throw error;
      return { histories, isWhole: false };
    }
    histories.unshift(history);
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return { histories, isWhole: true };
}

/** Reads what an event says of an activity: that it was scheduled, by the event `id`, or how it ended. */
export function activityIn(event: HistoryEvent) {
  const scheduled = event.activityTaskScheduledEventAttributes;
  const name = scheduled?.activityType?.name ?? '';
  if (scheduled)
    return { kind: 'scheduled', id: String(event.eventId), name, payloads: scheduled.input?.payloads } as const;
  const completed = event.activityTaskCompletedEventAttributes;
  const timedOut = event.activityTaskTimedOutEventAttributes;
  const failed = timedOut ?? event.activityTaskFailedEventAttributes;
  const ended = completed ?? failed ?? event.activityTaskCanceledEventAttributes;
  if (!ended) return undefined;
  const heartbeat = timedOut?.failure?.timeoutFailureInfo?.lastHeartbeatDetails;
  return {
    kind: completed ? 'completed' : failed ? 'failed' : 'canceled',
    id: String(ended.scheduledEventId),
    /** The result, or what the last heartbeat held before the time was over. */
    payloads: completed ? completed.result?.payloads : heartbeat && (heartbeat.payloads ?? []),
    wasStarted: Number(ended.startedEventId ?? 0) > 0,
  } as const;
}

export interface FailingTask {
  /** Absent if no task has failed yet, and workers answer queries with the reason for which the next one will. */
  readonly at?: string;
  readonly message: string;
  /** The build with which the run stays; absent without versions. */
  readonly build?: string;
}

/** `temporal.api.enums.v1.VersioningBehavior`. */
const PINNED = 1;

/** Returns the failed workflow task since the last completed one. History keeps the first of several attempts. */
export function failingTask({ events = [] }: Pick<History, 'events'>): FailingTask | undefined {
  const last = (events ?? []).findLastIndex((event) => event.workflowTaskCompletedEventAttributes);
  const since = (events ?? []).slice(last + 1);
  // A reset makes a task fail too, and names the run that it creates.
  const failed = since.findLast(({ workflowTaskFailedEventAttributes: task }) => task && !task.newRunId);
  const message = failed?.workflowTaskFailedEventAttributes?.failure?.message;
  if (failed === undefined) return undefined;
  const at = new Date(tsToMs(failed.eventTime)).toISOString();
  return { at, message: sentenceOf(message ?? ''), ...stayingWith(events?.[last]) };
}

/** Returns the next workflow task of a run that waits, if it is known by an answer to a query that it will fail. */
export function comingTask({ events = [] }: Pick<History, 'events'>, answer: Error): FailingTask {
  const last = (events ?? []).findLast((event) => event.workflowTaskCompletedEventAttributes);
  return { message: sentenceOf(answer.message), ...stayingWith(last) };
}

function stayingWith(completed: NonNullable<History['events']>[number] | undefined): { readonly build?: string } {
  const { deploymentVersion, versioningBehavior } = completed?.workflowTaskCompletedEventAttributes ?? {};
  return defined({ build: (versioningBehavior === PINNED && deploymentVersion?.buildId) || undefined });
}

/** Waits for news of an execution; undefined if there is none before the deadline of the call. */
export async function nextEvents(
  { connection, options }: Client,
  execution: { readonly workflowId: string; readonly runId?: string },
  nextPageToken: Uint8Array | undefined,
) {
  try {
    return await connection.workflowService.getWorkflowExecutionHistory({
      namespace: options.namespace,
      execution,
      waitNewEvent: true,
      ...defined({ nextPageToken }),
    });
  } catch (error) {
    if (isGrpcDeadlineError(error)) return undefined;
    throw error;
  }
}

/** True if a workflow goes on in an execution that does not continue this one: it was reset. */
export async function wasReset(
  { workflow }: Client,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
): Promise<boolean> {
  const [followed, newest] = await Promise.all([
    workflow.getHandle(workflowId, runId).describe(),
    workflow.getHandle(workflowId).describe(),
  ]);
  return newest.runId !== runId && !['RUNNING', 'CONTINUED_AS_NEW'].includes(followed.status.name);
}

/** Waits for the end of a workflow. A reset terminates one execution, and the workflow goes on in another. */
export async function endOf(handle: WorkflowHandle): Promise<unknown> {
  let newest: string | undefined;
  for (;;) {
    try {
      return await handle.result();
    } catch (error) {
      const isTerminated = error instanceof WorkflowFailedError && error.cause instanceof TerminatedFailure;
      if (!isTerminated) throw error;
      const { runId, status } = await handle.describe();
      // An execution that was waited for once more has ended so itself, whatever its status says.
      if (status.name === 'TERMINATED' || runId === newest) throw error;
      newest = runId;
    }
  }
}

type Payloads = Parameters<typeof decodeArrayFromPayloads>[1];

export async function decoded({ options }: Client, payloads: Payloads): Promise<readonly unknown[]> {
  return await decodeArrayFromPayloads(options.loadedDataConverter, payloads ?? []);
}

/** Reads the first value of an event; undefined if it cannot be read: anybody may write to a namespace. */
export async function readable(client: Client, payloads: Payloads): Promise<unknown> {
  const [value] = await decoded(client, payloads).catch(() => []);
  return value;
}

/** True if what Temporal was asked for is not there, whichever part of its client says so. */
export function isNotFound(error: unknown): boolean {
  for (let at = error; at !== null && typeof at === 'object'; at = 'cause' in at ? at.cause : undefined)
    if (('code' in at && at.code === grpcStatus.NOT_FOUND) || ('name' in at && at.name === 'WorkflowNotFoundError'))
      return true;
  return false;
}

export async function ifThere<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Extracts Temporal's own sentence from what the native part of the SDK prints around it. */
export function sentenceOf(message: string): string {
  return /\[TMPRL\d+\][^"]*/.exec(message)?.[0] ?? message;
}

/**
 * Reads from its history what an execution of a run dispatched, and how each dispatch ended. `discarded-tail.ts` says
 * which executions count.
 *
 * 1. Only what never changes is cached: the first event of an execution, and the whole of a closed one.
 * 2. An unreadable input proves nothing: such a dispatch may be any call, and may have been sent.
 * 3. A timeout or a cancellation proves nothing either, even if no worker had begun: an attempt that was failed from
 *    outside and reset leaves no trace.
 */
import { type Client, isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { LRUCache } from 'lru-cache';
import { ACTIVITIES, STRETCHING } from '../../contracts/names.ts';
import { deedOf, type DiscardedSend, endingOf, stretchedSends } from '../../domain/history/discarded-send.ts';
import { fieldsOf } from '../kit/json.ts';
import type { LedgerStream } from '../ledger/port.ts';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];

export interface Dispatch extends DiscardedSend {
  readonly eventId: number;
  /** A reset copies events; the mark of an event is the same in every execution that holds a copy. */
  readonly mark: string;
  /** True if it left within a stretch, and was repeatable then; also for a record of a stretch that cannot be read. */
  readonly inStretch: boolean;
  /** Undefined if its input cannot be read. */
  readonly idempotencyKey: string | undefined;
  /** The effect of the call, in the form of `deedOf`. */
  readonly deed: string | undefined;
}

export interface Execution {
  readonly runId: string;
  /** First Temporal run id of the chain that continue-as-new makes, a reset included. */
  readonly firstRunId: string;
  readonly dispatches: readonly Dispatch[];
  /** Event id of the newest reset that made this execution; 0 if none did. */
  readonly resetAt: number;
  /** Run ids of the executions that this one was reset from. */
  readonly bases: readonly string[];
  /** Run id of the execution that this one continues. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly isClosed: boolean;
}

const GRPC_NOT_FOUND = 5;
const MOST_KEPT = 2_000;

export class Histories {
  readonly #client: Client;
  readonly #origins = new LRUCache<string, LedgerStream>({ max: MOST_KEPT });
  readonly #closed = new LRUCache<string, Execution>({ max: MOST_KEPT });

  constructor(client: Client) {
    this.#client = client;
  }

  async origin(workflowId: string, runId: string): Promise<LedgerStream> {
    const known = this.#origins.get(runId);
    if (known !== undefined) return known;
    const { namespace } = this.#client.options;
    const origin = await executionOf(this.#client, { namespace, workflowId, runId });
    this.#origins.set(runId, origin);
    return origin;
  }

  /** Returns undefined if Temporal has not kept the execution. */
  async read(workflowId: string, runId: string): Promise<Execution | undefined> {
    const known = this.#closed.get(runId);
    if (known !== undefined) return known;
    let events: readonly HistoryEvent[];
    try {
      events = (await this.#client.workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];
    } catch (error) {
      if (isForgotten(error)) return undefined;
      throw error;
    }
    const execution = await this.#parsed(workflowId, runId, events);
    if (execution.isClosed) this.#closed.set(runId, execution);
    return execution;
  }

  async list(workflowId: string): Promise<readonly string[]> {
    const found: string[] = [];
    const query = `WorkflowId = '${workflowId.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
    for await (const { runId } of this.#client.workflow.list({ query })) found.push(runId);
    return found;
  }

  async #parsed(workflowId: string, runId: string, events: readonly HistoryEvent[]): Promise<Execution> {
    const started = events[0]?.workflowExecutionStartedEventAttributes;
    const resets = events.filter(({ workflowTaskFailedEventAttributes: failed }) => failed?.newRunId);
    const last = events.at(-1);
    return {
      runId,
      firstRunId: started?.firstExecutionRunId ?? '',
      dispatches: await this.#dispatches(workflowId, runId, events),
      resetAt: Number(resets.at(-1)?.eventId ?? 0),
      bases: resets.flatMap(({ workflowTaskFailedEventAttributes: failed }) => failed?.baseRunId || []),
      before: started?.continuedExecutionRunId || undefined,
      after: last?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId || undefined,
      isClosed: last !== undefined && isEnd(last),
    };
  }

  async #dispatches(workflowId: string, runId: string, events: readonly HistoryEvent[]): Promise<Dispatch[]> {
    const found = new Map<string, Dispatch>();
    const stretches = new Set<string>();
    for (const event of events) {
      const id = String(event.eventId);
      const scheduled = event.activityTaskScheduledEventAttributes;
      if (STRETCHING.includes(scheduled?.activityType?.name ?? '')) stretches.add(id);
      if (scheduled?.activityType?.name === ACTIVITIES.callTool) {
        const [input] = await this.#decoded(scheduled.input?.payloads);
        const at = tsToMs(event.eventTime);
        const sent = { eventId: Number(id), mark: markOf(event), at, runId, inStretch: false };
        found.set(id, { ...sent, ...readInput(input), ending: 'unknown' });
      }
      const completed = event.activityTaskCompletedEventAttributes;
      const timedOut = event.activityTaskTimedOutEventAttributes;
      const told = completed?.result ?? timedOut?.failure?.timeoutFailureInfo?.lastHeartbeatDetails;
      const scheduledId = String((completed ?? timedOut)?.scheduledEventId);
      const dispatch = found.get(scheduledId);
      if (!told || (!stretches.has(scheduledId) && dispatch === undefined)) continue;
      const [value] = await this.#decoded(told.payloads);
      if (dispatch === undefined) {
        for (const sent of stretchedIn(event, value, workflowId)) found.set(sent.mark, { ...sent, runId });
      } else if (completed) found.set(scheduledId, { ...dispatch, ending: endingOf(value) });
    }
    return [...found.values()];
  }

  async #decoded(payloads: Parameters<typeof decodeArrayFromPayloads>[1]): Promise<readonly unknown[]> {
    try {
      return await decodeArrayFromPayloads(this.#client.options.loadedDataConverter, payloads ?? []);
    } catch {
      return [];
    }
  }
}

/** A record that cannot be read may name any call. */
function stretchedIn(event: HistoryEvent, record: unknown, workflowId: string): Omit<Dispatch, 'runId'>[] {
  const base = { eventId: Number(event.eventId), inStretch: true };
  const sends = stretchedSends(record);
  if (sends === undefined) {
    const unread = { ...readInput(undefined), mark: markOf(event), at: tsToMs(event.eventTime) };
    return [{ ...base, ...unread, ending: 'unknown' }];
  }
  return sends.map(({ callId, at, ending, deed }) => ({
    ...base,
    mark: `${markOf(event)} ${callId}`,
    idempotencyKey: `${workflowId}/${callId}`,
    callId,
    at,
    ending,
    deed,
  }));
}

function markOf({ eventId, eventTime }: HistoryEvent): string {
  return `${String(eventId)} ${tsToMs(eventTime)} ${eventTime?.nanos ?? 0}`;
}

function readInput(input: unknown): Pick<Dispatch, 'callId' | 'idempotencyKey' | 'deed'> {
  const { callId, idempotencyKey } = fieldsOf(input);
  return {
    callId: typeof callId === 'string' ? callId : 'one that cannot be read',
    idempotencyKey: typeof idempotencyKey === 'string' ? idempotencyKey : undefined,
    deed: deedOf(input),
  };
}

const ENDS = ['Completed', 'Failed', 'TimedOut', 'Canceled', 'Terminated', 'ContinuedAsNew'] as const;

function isEnd(event: HistoryEvent): boolean {
  return ENDS.some((end) => Boolean(event[`workflowExecution${end}EventAttributes`]));
}

function isForgotten(error: unknown): boolean {
  return error instanceof WorkflowNotFoundError || (isGrpcServiceError(error) && Number(error.code) === GRPC_NOT_FOUND);
}

export interface ExecutionId {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
}

/** Reads the first event only, which never changes. */
export async function executionOf(
  { workflowService }: Pick<Client, 'workflowService'>,
  { namespace, workflowId, runId }: ExecutionId,
): Promise<LedgerStream> {
  const execution = { workflowId, runId };
  const { history } = await workflowService.getWorkflowExecutionHistory({ namespace, execution, maximumPageSize: 1 });
  const started = history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  const firstRunId = started?.firstExecutionRunId ?? '';
  const originalRunId = started?.originalExecutionRunId ?? '';
  if (firstRunId === '' || originalRunId === '')
    throw new Error(`the history of ${workflowId} does not begin with its start`);
  // After a reset the first event is that of the run that was reset.
  return { namespace, workflowId, firstRunId, runId, ...(originalRunId === runId ? {} : { resetOf: originalRunId }) };
}

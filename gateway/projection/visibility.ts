/**
 * Reads runs from Temporal's visibility, in pages, and decodes only rows that have changed.
 *
 * 1. Anybody may write to a namespace: what of a row cannot be read is left out, and ends no list.
 * 2. Each call has a deadline: one that is never answered would end all sweeps.
 */
import { status as grpcStatus } from '@grpc/grpc-js';
import { type Client, isGrpcServiceError } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { isNotFound, readable } from '../../client/engine/executions.ts';
import { jsonOf } from '../../client/ledger/files.ts';
import { defined } from '../../contracts/defined.ts';
import { PENDING_MEMO, RUN_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import type { RunRow } from '../../contracts/schemas/http-api.ts';
import { PendingMemo } from '../../contracts/schemas/request.ts';

/** Most rows that Temporal gives for one page. */
const PAGE_SIZE = 1_000;
const DEADLINE_MS = 10_000;

const OF_RUNS = `WorkflowType = '${RUN_WORKFLOW}'`;

export const RUNNING = `${OF_RUNS} AND ExecutionStatus = 'Running'`;

/** Open runs whose workflow tasks fail again and again, as newer servers mark them (docs/adr/0083). */
const STUCK = `${RUNNING} AND TemporalReportedProblems IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')`;

export function endedSince(since: Date): string {
  return `${OF_RUNS} AND CloseTime >= '${since.toISOString()}' AND ExecutionStatus != 'ContinuedAsNew'`;
}

type Execution = Awaited<ReturnType<Client['workflowService']['listWorkflowExecutions']>>['executions'][number];

export interface SeenRow {
  readonly runId: string;
  /** Two rows with equal marks show the same. */
  readonly mark: string;
  readonly read: () => Promise<ReadRow>;
}

export interface ReadRow {
  readonly row: RunRow;
  /** The first open requests; absent if nothing waits, or if the memo cannot be read. */
  readonly memo: PendingMemo | undefined;
  /** Who may answer, as `id:ann` and `group:finance`; absent if the run does not say. */
  readonly approvers: readonly string[] | undefined;
}

export async function* rowsOf(client: Client, query: string, signal: AbortSignal): AsyncGenerator<SeenRow> {
  let nextPageToken: Uint8Array | undefined;
  do {
    const asked = { namespace: client.options.namespace, pageSize: PAGE_SIZE, query, ...defined({ nextPageToken }) };
    const list = async () => await client.workflowService.listWorkflowExecutions(asked);
    const page = await inTime(client, async () => await until(client, signal, list));
    for (const execution of page.executions) yield seenIn(client, execution);
    nextPageToken = page.nextPageToken.length === 0 ? undefined : page.nextPageToken;
  } while (nextPageToken !== undefined);
}

/** Counts the open runs that do not go on; undefined if the server marks none, as those before 1.30. */
export async function stuckRuns(client: Client, signal: AbortSignal): Promise<number | undefined> {
  const asked = { namespace: client.options.namespace, query: STUCK };
  const count = async () => await client.workflowService.countWorkflowExecutions(asked);
  try {
    const answer = await inTime(client, async () => await until(client, signal, count));
    return Number(answer.count.toString());
  } catch (error) {
    if (isGrpcServiceError(error) && error.code === grpcStatus.INVALID_ARGUMENT) return undefined;
    throw error;
  }
}

/** A call keeps hold of its signal, so each gets one of its own. */
async function until<T>({ connection }: Client, signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  const own = new AbortController();
  const abort = (): void => own.abort();
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await connection.withAbortSignal(own.signal, ask);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function inTime<T>({ connection }: Client, ask: () => Promise<T>): Promise<T> {
  return await connection.withDeadline(Date.now() + DEADLINE_MS, ask);
}

/** Reads the row of one run; undefined if there is none. */
export async function rowOf(client: Client, runId: string): Promise<SeenRow | undefined> {
  try {
    const asked = { namespace: client.options.namespace, execution: { workflowId: runId } };
    const describe = async () => await client.workflowService.describeWorkflowExecution(asked);
    const { workflowExecutionInfo } = await inTime(client, describe);
    return workflowExecutionInfo?.type?.name === RUN_WORKFLOW ? seenIn(client, workflowExecutionInfo) : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

const SHOWN = Object.values(SEARCH_ATTRIBUTES).map(({ name }) => name);

function seenIn(client: Client, execution: Execution): SeenRow {
  const fields = execution.searchAttributes?.indexedFields ?? {};
  const memo = execution.memo?.fields?.[PENDING_MEMO];
  const parts = [...SHOWN.map((name) => fields[name]?.data), memo?.data].map((data) =>
    data ? Buffer.from(data).toString('base64') : '',
  );
  return {
    runId: execution.execution?.workflowId ?? '',
    mark: [execution.execution?.runId, execution.status, ...parts].join(' '),
    read: async () => rowIn(execution, memo ? await readable(client, [memo]) : undefined),
  };
}

/** `temporal.api.enums.v1.WorkflowExecutionStatus`, for runs that could not say themselves how they ended. */
const ENDED: Readonly<Record<number, string>> = { 3: 'failed', 4: 'cancelled', 5: 'terminated', 7: 'failed' };

function rowIn(execution: Execution, memo: unknown): ReadRow {
  const { approvers, initiator, nextDeadline, pending, servers, status, tenant, waitingSince } = SEARCH_ATTRIBUTES;
  const value = (name: string): unknown =>
    jsonOf(Buffer.from(execution.searchAttributes?.indexedFields?.[name]?.data ?? []).toString());
  const text = (name: string): string | undefined => {
    const found = value(name);
    return typeof found === 'string' ? found : undefined;
  };
  const list = (name: string): string[] | undefined => {
    const found = value(name);
    const listed: readonly unknown[] = Array.isArray(found) ? found : [found];
    const texts = listed.filter((each) => typeof each === 'string');
    return texts.length === 0 ? undefined : texts;
  };
  const time = (name: string): string | undefined => {
    const ms = Date.parse(text(name) ?? '');
    return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
  };
  const count = Number(value(pending.name) ?? 0);
  const isOpen = execution.status === 1;
  const read = PendingMemo.safeParse(memo);
  return {
    row: {
      runId: execution.execution?.workflowId ?? '',
      status: isOpen
        ? (text(status.name) ?? 'running')
        : (ENDED[execution.status ?? 0] ?? text(status.name) ?? 'ended'),
      // A run without these has not begun, or is not ours: nobody but readers of that tenant sees it.
      tenant: text(tenant.name) ?? '',
      initiator: text(initiator.name) ?? '',
      servers: list(servers.name) ?? [],
      startedAt: new Date(execution.startTime ? tsToMs(execution.startTime) : 0).toISOString(),
      ...(execution.closeTime && !isOpen ? { endedAt: new Date(tsToMs(execution.closeTime)).toISOString() } : {}),
      pending: isOpen && Number.isSafeInteger(count) ? count : 0,
      ...defined({ nextDeadline: time(nextDeadline.name), waitingSince: time(waitingSince.name) }),
    },
    memo: isOpen && read.success ? read.data : undefined,
    approvers: list(approvers.name),
  };
}

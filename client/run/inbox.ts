/** Lists the runs that wait for a decision, without waking them, and sends several decisions at once. */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import { PENDING_MEMO, RUN_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import { isUndecodable, unreadable } from '../../contracts/payload-converter.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type DecisionAck, type DecisionInput, PendingMemo } from '../../contracts/schemas/request.ts';
import { waitingNames } from '../../domain/request/onlooker.ts';
import { Lanes } from '../engine/engine.ts';
import { listExecutions } from '../engine/executions.ts';

export interface InboxFilter {
  readonly tenant?: string;
  /** Lists only runs that wait for this person, by id or by one of the groups. */
  readonly approver?: { readonly id?: string; readonly groups?: readonly string[] };
  /** Most runs to list; default 100. */
  readonly most?: number;
}

export interface WaitingRun {
  readonly runId: string;
  readonly startedAt: string;
  readonly pending: PendingMemo;
}

export async function listWaiting(
  client: Client,
  { tenant, approver, most = 100 }: InboxFilter,
): Promise<WaitingRun[]> {
  const conditions = [
    `WorkflowType = ${quoted(RUN_WORKFLOW)}`,
    `ExecutionStatus = 'Running'`,
    `${SEARCH_ATTRIBUTES.pending.name} > 0`,
    ...(tenant === undefined ? [] : [`${SEARCH_ATTRIBUTES.tenant.name} = ${quoted(tenant)}`]),
    ...(approver === undefined ? [] : [`${SEARCH_ATTRIBUTES.approvers.name} IN (${waitsFor(approver).join(', ')})`]),
  ];
  const waiting: WaitingRun[] = [];
  let unread: CountersignError | undefined;
  for await (const { workflowId, startTime, memo } of listExecutions(client, conditions.join(' AND '))) {
    const pending = memo?.[PENDING_MEMO];
    if (isUndecodable(pending)) {
      unread ??= unreadable(pending);
      continue;
    }
    // Visibility lags behind a run by moments: a run that has just been decided has no memo any more.
    if (pending === undefined || pending === null) continue;
    waiting.push({
      runId: workflowId,
      startedAt: startTime.toISOString(),
      pending: parseAs(PendingMemo, pending, 'INTERNAL', 'memo'),
    });
    if (waiting.length >= most) break;
  }
  // One unreadable memo hides none of the others. If none can be read, a key is missing.
  if (waiting.length === 0 && unread !== undefined) throw unread;
  return waiting;
}

function waitsFor(approver: NonNullable<InboxFilter['approver']>): string[] {
  const { sure, possible } = waitingNames(approver);
  return [...sure, ...possible].map(quoted);
}

/** Writes a string of the visibility query language: a backslash escapes quotes (Temporal list filter). */
export function quoted(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

// Sends several decisions on calls of one run; each gets an answer of its own (INV-G3).
//
// 1. A few decisions are in flight at once (`Lanes`). The deadline of one begins when it is sent.

/** Answers stand in the order of the decisions. */
export type BatchAnswer = { readonly callId: string; readonly decisionId: string } & (
  | { readonly kind: 'accepted'; readonly ack: DecisionAck }
  | { readonly kind: 'refused'; readonly error: CountersignError }
);

export async function decideAll(
  inputs: readonly DecisionInput[],
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<readonly BatchAnswer[]> {
  const lanes = new Lanes();
  return await Promise.all(
    inputs.map(async (input) => await lanes.run('all', async () => await answerTo(input, decide))),
  );
}

async function answerTo(
  input: DecisionInput,
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<BatchAnswer> {
  const { callId, decisionId } = input;
  try {
    return { callId, decisionId, kind: 'accepted', ack: await decide(input) };
  } catch (error) {
    // Any other error is a fault of the client, not an answer.
    if (!(error instanceof CountersignError)) throw error;
    return { callId, decisionId, kind: 'refused', error };
  }
}

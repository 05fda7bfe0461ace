/** Lists the runs that wait for a decision, without waking them, and sends several decisions at once. */
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { PENDING_MEMO, RUN_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import { isUndecodable, unreadable } from '../../contracts/payload-converter.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type DecisionAck, type DecisionInput, PendingMemo } from '../../contracts/schemas/request.ts';
import { waitingNames } from '../../domain/request/onlooker.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { type Engine, Lanes } from '../engine/engine.ts';

export interface InboxFilter {
  readonly tenant?: string;
  /** Lists only runs that wait for this person, by id or by one of the groups. */
  readonly approver?: { readonly id?: string; readonly groups?: readonly string[] };
  /** Most runs to list, those with the first deadlines; default 100. */
  readonly most?: number;
}

export interface WaitingRun {
  readonly runId: string;
  readonly startedAt: string;
  readonly pending: PendingMemo;
}

/** A name that this filter does not know would filter nothing, and show one person what waits for others. */
const Filter = z.strictObject({
  tenant: z.string().optional(),
  // A backend gives the person as it knows them, with more fields.
  approver: z
    .looseObject({ id: z.string().optional(), groups: z.array(z.string()).optional() })
    .refine(({ id, groups }) => id !== undefined || groups !== undefined, 'must have an id or groups')
    .optional(),
  most: z.unknown().optional(),
});

export interface Inbox {
  /** The first deadline first. */
  readonly runs: readonly WaitingRun[];
  /** How many runs wait beyond `most`; none of them has an earlier deadline. */
  readonly more: number;
  /** Ids of runs that wait and are not listed: what they say cannot be read here, or not by this version. */
  readonly unread: readonly string[];
  /** False if more runs wait than are looked at (10,000): the oldest were not, and may have earlier deadlines. */
  readonly isWhole: boolean;
}

/** Each is a few kilobytes; Temporal gives a thousand at once. */
const MOST_LOOKED_AT = 10_000;

/**
 * Temporal lists in no order but the newest first, so all are read, and sorted here.
 * @throws CountersignError `CONFIG_INVALID` if none can be read, `USAGE`
 */
export async function listWaiting(engine: Engine, given: InboxFilter): Promise<Inbox> {
  parseAs(Filter, readOf(given), 'USAGE', 'filter of what waits');
  const { most = 100, ...filter } = given;
  if (!(most >= 0))
    throw new CountersignError('USAGE', 'most is no number of runs. Give 0 or more, or leave it out for 100.');
  const waiting: WaitingRun[] = [];
  const unread: string[] = [];
  let undecodable: CountersignError | undefined;
  let looked = 0;
  for await (const { workflowId, startTime, memo } of engine.list(queryOf(filter))) {
    looked += 1;
    if (looked > MOST_LOOKED_AT) break;
    const found = memo?.[PENDING_MEMO];
    // Visibility lags behind a run by moments: a run that has just been decided has no memo any more.
    if (found === undefined || found === null) continue;
    if (isUndecodable(found)) undecodable ??= unreadable(found);
    // Anybody may write to a namespace, and a newer version may say more: one run ends the list of no other.
    const read = PendingMemo.safeParse(found);
    if (read.success) waiting.push({ runId: workflowId, startedAt: startTime.toISOString(), pending: read.data });
    else unread.push(workflowId);
  }
  // One unreadable memo hides none of the others. If none can be read, a key is missing.
  if (waiting.length === 0 && undecodable !== undefined) throw undecodable;
  const runs = waiting.toSorted(byDeadline).slice(0, most);
  return { runs, more: waiting.length - runs.length, unread, isWhole: looked <= MOST_LOOKED_AT };
}

/** Leaves out what nobody reads of a person, who may be an object of the caller with anything in it. */
function readOf(given: unknown): unknown {
  if (!isFields(given) || !isFields(given['approver'])) return given;
  const { id, groups } = given['approver'];
  return { ...given, approver: defined({ id, groups }) };
}

function queryOf({ tenant, approver }: Omit<InboxFilter, 'most'>): string {
  const conditions = [
    `WorkflowType = ${quoted(RUN_WORKFLOW)}`,
    `ExecutionStatus = 'Running'`,
    `${SEARCH_ATTRIBUTES.pending.name} > 0`,
    ...(tenant === undefined ? [] : [`${SEARCH_ATTRIBUTES.tenant.name} = ${quoted(tenant)}`]),
  ];
  if (approver !== undefined) {
    const { sure, possible } = waitingNames(approver);
    conditions.push(`${SEARCH_ATTRIBUTES.approvers.name} IN (${[...sure, ...possible].map(quoted).join(', ')})`);
  }
  return conditions.join(' AND ');
}

function byDeadline(one: WaitingRun, other: WaitingRun): number {
  const [first, second] = [deadlineOf(one), deadlineOf(other)];
  return first === second ? Date.parse(one.startedAt) - Date.parse(other.startedAt) : first - second;
}

/** A run without a deadline comes last, and so does one with a text that is no time. */
function deadlineOf({ pending }: WaitingRun): number {
  const deadline = Date.parse(pending.nextDeadline ?? '');
  return Number.isNaN(deadline) ? Number.MAX_VALUE : deadline;
}

/** Writes a string of the visibility query language: a backslash escapes quotes (Temporal list filter). */
export function quoted(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export type BatchAnswer = { readonly callId: string; readonly decisionId: string } & (
  | { readonly kind: 'accepted'; readonly ack: DecisionAck }
  | { readonly kind: 'refused'; readonly error: CountersignError }
);

/** Sends several decisions, a few at once; each gets an answer of its own (INV-G3), in their order. */
export async function decideAll(
  inputs: readonly DecisionInput[],
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<readonly BatchAnswer[]> {
  // A caller without types may give a single decision.
  const given: unknown = inputs;
  if (!Array.isArray(given)) {
    const message = 'The decisions are not a list. Give a list of them; nothing was sent.';
    throw new CountersignError('DECISION_INVALID', message);
  }
  const lanes = new Lanes();
  return await Promise.all(
    inputs.map(async (input) => await lanes.run('all', async () => await answerTo(input, decide))),
  );
}

async function answerTo(
  input: DecisionInput,
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<BatchAnswer> {
  // A caller without types may send a list with a hole in it; the others have been sent by then.
  const { callId, decisionId } = isFields(input) ? input : { callId: '', decisionId: '' };
  try {
    return { callId, decisionId, kind: 'accepted', ack: await decide(input) };
  } catch (error) {
    // Any other error is a fault of the client, not an answer.
    if (!(error instanceof CountersignError)) throw error;
    return { callId, decisionId, kind: 'refused', error };
  }
}

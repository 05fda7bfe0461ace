/**
 * One decision on one call, as `approve`, `reject`, `withdraw`, `extend` and `respond` make it.
 *
 * 1. What is decided is the request as the run shows it now, its digest recomputed; a digest that the decider names must be
 *    that one, or nothing is sent (INV-G2).
 * 2. Whoever comes second is told who decided first, also when the run is long over (INV-G2).
 * 3. The same decision sent again under its id gets its first answer, and no other one does (INV-D3).
 */
import { randomUUID } from 'node:crypto';
import type { RunHandle } from '../client/index.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { DecisionAck, Remember } from '../contracts/schemas/decision.ts';
import type { JsonObject } from '../contracts/schemas/json.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import { hashOf, sha256Hex } from '../domain/canonical.ts';
import { assertSame, type Told } from './answered-before.ts';
import type { GlobalOptions } from './options.ts';

export interface DecideOptions extends GlobalOptions {
  readonly as: string;
  readonly group?: readonly string[];
  readonly digest?: string;
  readonly decisionId?: string;
}

/** What only one of the kinds says. */
export type Judged =
  | {
      readonly kind: 'approve';
      readonly comment?: string;
      readonly arguments?: JsonObject;
      readonly remember?: Remember;
    }
  | { readonly kind: 'respond'; readonly answer: string; readonly comment?: string }
  | { readonly kind: 'withdraw'; readonly comment?: string }
  | { readonly kind: 'extend'; readonly until: string; readonly comment?: string }
  | { readonly kind: 'reject'; readonly reason: string };

export interface Decided {
  readonly ack: DecisionAck;
  /** Absent where the decision was found in the ledger only. */
  readonly request?: ApprovalRequest;
}

export async function decideCall(
  run: RunHandle,
  callId: string,
  judged: Judged,
  options: DecideOptions,
): Promise<Decided> {
  const decisionId = options.decisionId ?? randomUUID();
  const request = (await run.requests()).find((shown) => shown.callId === callId);
  if (request === undefined) return { ack: await settledBefore(run, callId, decisionId, judged, options) };
  if (options.digest !== undefined && options.digest !== request.digest) {
    const message = `Call ${callId} now has digest ${request.digest}, not the one you named. Read it again (countersign requests ${run.runId}) before you decide; nothing was sent.`;
    throw new CountersignError('DIGEST_MISMATCH', message, { runId: run.runId, callId });
  }
  const approver = { id: options.as, groups: [...(options.group ?? [])] };
  try {
    const ack = await run.decide({
      ...judged,
      decisionId,
      callId,
      digest: request.digest,
      runId: request.runId,
      approver,
    });
    return { ack, request };
  } catch (error) {
    if (!(error instanceof CountersignError)) throw error;
    if (error.code === 'RUN_CLOSED')
      return { ack: await settledBefore(run, callId, decisionId, judged, options), request };
    if (error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `${error.message} Here: add --decision-id ${decisionId}`;
    throw new CountersignError(error.code, message, { ...error.facts, callId, decisionId }, { cause: error });
  }
}

/** The call no longer waits in the current turn: its end stands in the ledger. */
async function settledBefore(
  run: RunHandle,
  callId: string,
  decisionId: string,
  judged: Judged,
  options: DecideOptions,
): Promise<DecisionAck> {
  const { runId } = run;
  const entries = (await run.ledger()).filter(({ fact }) => 'callId' in fact && fact.callId === callId);
  const decisions = entries.flatMap(({ at, fact }) => (fact.kind === 'decision.accepted' ? [{ at, fact }] : []));
  const own = decisions.find(({ fact }) => fact.decisionId === decisionId);
  if (own !== undefined) {
    assertSame(callId, decisionId, toldOf(own.fact, judged, options));
    return ackOf(own.fact, own.at);
  }
  const accepted = decisions.map(({ at, fact }) => ackOf(fact, at));
  const first = accepted.findLast(({ status }) => ['approved', 'rejected', 'answered'].includes(status));
  const closed = entries.findLast(({ fact }) => fact.kind === 'request.closed');
  // A call that was approved, asked again and then left to expire has expired.
  if (first !== undefined && (closed === undefined || closed.at < first.decidedAt)) {
    const { status, decidedBy, decidedAt } = first;
    throw new CountersignError(
      'ALREADY_DECIDED',
      `Call ${callId} was ${status} by ${decidedBy} at ${decidedAt}; nothing was changed.`,
      { runId, callId, decidedBy, decidedAt },
    );
  }
  if (closed?.fact.kind === 'request.closed' && closed.fact.status === 'expired') {
    throw new CountersignError(
      'DECISION_EXPIRED',
      `The request for call ${callId} expired at ${closed.at}; it was not run.`,
      { runId, callId },
    );
  }
  if (entries.length > 0)
    throw new CountersignError('REQUEST_NOT_OPEN', `Call ${callId} does not wait for a decision.`, { runId, callId });
  throw new CountersignError('CALL_UNKNOWN', `Run ${runId} has no call ${callId}.`, { runId, callId });
}

type Accepted = Extract<LedgerFact, { kind: 'decision.accepted' }>;

/** Groups are not looked at: the ledger keeps those that the rule of the request names. */
function toldOf(fact: Accepted, judged: Judged, { as, digest }: DecideOptions): Told {
  return [
    [fact.decision, judged.kind],
    [fact.approver.id, as],
    [fact.digest, digest ?? fact.digest],
    [fact.comment, judged.kind === 'reject' ? judged.reason : judged.comment],
    [fact.until, judged.kind === 'extend' ? judged.until : undefined],
    [fact.answerHash, judged.kind === 'respond' ? sha256Hex(judged.answer) : undefined],
    [fact.remember, judged.kind === 'approve' ? judged.remember : undefined],
    [
      fact.edited?.to,
      judged.kind === 'approve' && judged.arguments !== undefined ? hashOf(judged.arguments) : undefined,
    ],
  ];
}

const STATUS_OF = {
  approve: 'approved',
  reject: 'rejected',
  withdraw: 'withdrawn',
  extend: 'extended',
  respond: 'answered',
} as const;

function ackOf(
  { callId, decisionId, decision, approver, counted, until, edited }: Accepted,
  decidedAt: string,
): DecisionAck {
  return {
    callId,
    decisionId,
    status: counted === true ? (edited === undefined ? 'counted' : 'edited') : STATUS_OF[decision],
    decidedBy: approver.id,
    decidedAt,
    ...(until === undefined ? {} : { until }),
  };
}

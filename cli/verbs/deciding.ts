/**
 * Sends decisions for `approve`, `reject`, `withdraw`, `extend` and `respond`: one on one call, or the same
 * one on several.
 *
 * 1. A decision applies to the request as the run shows it now, with its digest recomputed. If the decider names a
 *    digest, it must be that one, or nothing is sent (INV-G2).
 * 2. A second decider is told who decided first, even if the run ended long ago (INV-G2).
 * 3. The same decision sent again under its id gets its first answer; another decision under that id does not (INV-D3).
 * 4. A batch is shown before it is sent, and sent only with `--yes`.
 * 5. A batch takes no option that belongs to one call: a digest, an id, or other arguments.
 */
import { randomUUID } from 'node:crypto';
import type { BatchAnswer, RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { type ApprovalRequest, type DecisionAck, Remember } from '../../contracts/schemas/request.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { mayDecide } from '../../domain/policy/approvers.ts';
import { hashOf, sha256Hex } from '../../domain/text/canonical.ts';
import { assertSame, type Told } from '../session/answered.ts';
import type { GlobalOptions } from '../session/options.ts';
import type { BatchPlan, Decided } from '../views/decision.ts';

export interface DecideOptions extends GlobalOptions {
  readonly as: string;
  readonly group?: readonly string[];
  readonly digest?: string;
  readonly decisionId?: string;
}

/** The part of a decision that depends on its kind. */
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

/** Reads from the ledger how the call ended, if it no longer waits in the current turn. */
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
  // A call that was approved, asked again and then left to expire counts as expired.
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

/** Groups are not compared, because the ledger keeps only those that the request's rule names. */
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
    ...defined({ until }),
  };
}

// A batch is planned from the open requests, shown, and then sent.

export interface BatchOptions extends DecideOptions {
  readonly all?: true;
  readonly yes?: true;
  readonly reveal?: true;
}

/**
 * Selects the requests that a batch decides.
 * @throws CountersignError `CALL_UNKNOWN`, `REQUEST_NOT_OPEN` if a named call cannot be decided
 */
export async function planBatch(
  run: RunHandle,
  callIds: readonly string[],
  judged: Judged,
  options: BatchOptions,
): Promise<BatchPlan> {
  const approver = { id: options.as, groups: [...(options.group ?? [])] };
  const shown = await run.requests();
  // Requests about something else than consent are answered one by one, by somebody who has read them.
  const open = shown.filter(({ status, about }) => status === 'open' && about === undefined);
  const now = Date.now();
  const mine = open.filter(
    ({ approvers, openedAt, votes = [] }) =>
      mayDecide(approvers, { ...approver, after: now - Date.parse(openedAt) }) &&
      // An approver counts only once, but may still reject a call after approving it.
      (judged.kind !== 'approve' || votes.every((vote) => vote.approver.id !== approver.id)),
  );
  const requests = options.all === true ? mine : await openNamed(run, shown, [...new Set(callIds)]);
  return {
    kind: judged.kind,
    requests,
    others: options.all === true ? open.filter((each) => !mine.includes(each)).map(({ callId }) => callId) : [],
    decisions: requests.map(({ callId, digest, runId }) => ({
      ...judged,
      decisionId: randomUUID(),
      callId,
      digest,
      runId,
      approver,
    })),
  };
}

/** @throws CountersignError `USAGE` */
export function assertForSeveral(callIds: readonly string[], judged: Judged, options: BatchOptions): void {
  const fault =
    options.all === true && callIds.length > 0
      ? 'Name calls, or --all, not both.'
      : callIds.length === 0 && options.all !== true
        ? 'Name a call, several, or --all.'
        : options.digest !== undefined || options.decisionId !== undefined
          ? '--digest and --decision-id are of one call; name one.'
          : judged.kind === 'approve' && judged.arguments !== undefined
            ? '--arguments are of one call; name one.'
            : undefined;
  if (fault !== undefined) throw new CountersignError('USAGE', `${fault} Nothing was sent.`);
}

async function openNamed(
  run: RunHandle,
  shown: readonly ApprovalRequest[],
  callIds: readonly string[],
): Promise<ApprovalRequest[]> {
  const found = callIds.map((callId) => shown.find((each) => each.callId === callId));
  const at = found.findIndex((request) => request?.status !== 'open');
  const callId = callIds[at];
  if (callId === undefined) return found.filter((request) => request !== undefined);
  const { runId } = run;
  // The run shows only requests of the current turn. For an earlier turn, or a stopped run, the ledger tells.
  const wasMade =
    found[at] !== undefined || (await run.ledger()).some(({ fact }) => 'callId' in fact && fact.callId === callId);
  const what = wasMade ? `does not wait for call ${callId} any more` : `has no request for call ${callId}`;
  const code = wasMade ? 'REQUEST_NOT_OPEN' : 'CALL_UNKNOWN';
  throw new CountersignError(code, `Run ${runId} ${what}; nothing was sent.`, { runId, callId });
}

export function notConfirmed({ requests }: BatchPlan): CountersignError {
  const message =
    requests.length === 0
      ? 'Nothing waits that you may decide; nothing was sent.'
      : `Nothing was sent. To decide ${requests.length === 1 ? 'this call' : `these ${requests.length} calls`}, add --yes.`;
  return new CountersignError('USAGE', message);
}

/**
 * Throws the first refusal, whose exit code becomes the command's.
 * @throws CountersignError
 */
export function assertAllDecided(answers: readonly BatchAnswer[]): void {
  const refused = answers.flatMap((answer) => (answer.kind === 'refused' ? [answer] : []));
  const [first] = refused;
  if (first === undefined) return;
  throw new CountersignError(
    first.error.code,
    `${refused.length} of ${answers.length} decisions were not taken, the first of call ${first.callId}: ${first.error.message}`,
    { ...first.error.facts, callId: first.callId, decisionId: first.decisionId, refused: refused.length },
    { cause: first.error },
  );
}

// `--remember` says how far an approval answers later calls.

/** @param text `call`, `tool`, or `arguments:path,owner` */
export function rememberOf(text: string, until: string | undefined): Remember {
  const [scope, named] = text.split(/:(.*)/s, 2);
  const names = named === undefined ? {} : { names: named.split(',') };
  return parseAs(
    Remember,
    { scope, ...names, ...defined({ until }) },
    'USAGE',
    'value of --remember (call, tool, or arguments:NAME,NAME)',
  );
}

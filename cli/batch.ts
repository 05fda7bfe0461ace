/**
 * The same decision on several calls of one run: what would be sent, and what became of it.
 *
 * 1. Nothing is sent before it was shown and `--yes` was given.
 * 2. What cannot be decided in one go (a digest, an id, other arguments) is refused: it is of one call.
 */
import { randomUUID } from 'node:crypto';
import type { BatchAnswer, RunHandle } from '../client/index.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { DecisionInput } from '../contracts/schemas/decision.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import { mayDecide } from '../domain/approver.ts';
import type { DecideOptions, Judged } from './decide.ts';

export interface BatchOptions extends DecideOptions {
  readonly all?: true;
  readonly yes?: true;
  readonly reveal?: true;
}

export interface BatchPlan {
  readonly kind: Judged['kind'];
  readonly requests: readonly ApprovalRequest[];
  readonly decisions: readonly DecisionInput[];
  /** Calls that wait for others: with `--all`, left out. */
  readonly others: readonly string[];
}

/** @throws CountersignError `CALL_UNKNOWN`, `REQUEST_NOT_OPEN` where a call that is named cannot be decided */
export async function planBatch(
  run: RunHandle,
  callIds: readonly string[],
  judged: Judged,
  options: BatchOptions,
): Promise<BatchPlan> {
  const approver = { id: options.as, groups: [...(options.group ?? [])] };
  const shown = await run.requests();
  // What is asked besides consent is answered one by one, by whoever has looked.
  const open = shown.filter(({ status, about }) => status === 'open' && about === undefined);
  const now = Date.now();
  const mine = open.filter(
    ({ approvers, openedAt, votes = [] }) =>
      mayDecide(approvers, { ...approver, after: now - Date.parse(openedAt) }) &&
      // Nobody counts twice; what they agreed to they may still reject.
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
  // Requests are those of the current turn: of a turn that is over, or of a run that was stopped, the ledger tells.
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

/** The exit code is that of the first that was refused. @throws CountersignError */
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

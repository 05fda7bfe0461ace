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
  const requests =
    options.all === true ? mine : [...new Set(callIds)].map((callId) => openOne(run.runId, shown, callId));
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

function openOne(runId: string, shown: readonly ApprovalRequest[], callId: string): ApprovalRequest {
  const request = shown.find((each) => each.callId === callId);
  if (request?.status === 'open') return request;
  const code = request === undefined ? 'CALL_UNKNOWN' : 'REQUEST_NOT_OPEN';
  const what =
    request === undefined ? `has no request for call ${callId}` : `does not wait for call ${callId} any more`;
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

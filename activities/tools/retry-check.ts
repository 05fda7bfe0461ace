/**
 * Whether a call that may have run is sent again by somebody's word (INV-X1). As little is believed as of consent.
 *
 * 1. The word is proven on what was shown of the call: what was known of it, who was asked, until when.
 * 2. It counts only by whoever would be asked now, and in a Temporal run that counts; else the same is asked again.
 * 3. Where one person does not meet the rule, consent to the call was given after they spoke.
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { isMet, mayDecide } from '../../domain/approver.ts';
import { forbidden, type Refused } from './dispatch-check.ts';
import { digestOfPause } from './shown-digest.ts';
import { answerersNow } from './word-now.ts';

export function checkRetry(
  input: DispatchInput,
  config: Pick<Config, 'policy'>,
  verdict: Exclude<Verdict, { kind: 'deny' }>,
): Refused | undefined {
  const { retry } = input;
  if (retry === undefined) return undefined;
  const { resolution, about, approvers } = retry;
  const [opened, decided, deadline] = [retry.openedAt, retry.decidedAt, retry.deadline].map((at) => Date.parse(at));
  const voter = { ...resolution.approver, after: Number(decided) - Number(opened) };
  const isWord =
    resolution.kind === 'retry' &&
    resolution.callId === input.callId &&
    resolution.digest === digestOfPause(input, retry, resolution.runId) &&
    about.kind === 'outcome' &&
    about.attempt < input.attempt &&
    // Written so that a time that is none proves nothing.
    Number(opened) <= Number(decided) &&
    Number(decided) < Number(deadline) &&
    mayDecide(approvers, voter) &&
    (isMet(approvers, [voter]) || isConsentedSince(input, Number(decided)));
  if (!isWord) return forbidden('Nobody whose word counts has said that this call is sent again.');
  if (!input.decidedIn.includes(resolution.runId))
    return again('DECISION_STALE_RUN', 'That the call is sent again was said before the run was reset.');
  const now = answerersNow(input, config, verdict);
  if (mayDecide(now.approvers, voter)) return undefined;
  const { id } = resolution.approver;
  return {
    ...again('VERDICT_STRICTER', `Policy now asks others than ${id} what became of the call.`),
    approvers: now.approvers,
    deadlineSeconds: now.deadlineSeconds,
  };
}

function isConsentedSince({ proof }: DispatchInput, decided: number): boolean {
  return proof.kind === 'decision' && Date.parse(proof.decidedAt) >= decided;
}

function again(code: string, message: string): Extract<Refused, { kind: 'reopen' }> {
  return { kind: 'reopen', code, message, asks: 'outcome' };
}

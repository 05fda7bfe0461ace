/**
 * Whether decisions on an earlier call let this one be sent, too (INV-G1). As little is believed as of a decision on the call itself.
 *
 * 1. Each decision is proven on the request it was made on; what it covers is read from the decisions, and from nothing else.
 * 2. The rule of then and that of now must let it be remembered so far, and the same people must meet both.
 * 3. Not known here: whether it was taken back. The run does not send what was (docs/adr/0024).
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { DispatchProof } from '../../contracts/dispatch-proof.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import { isMet } from '../../domain/approver.ts';
import { hashOf } from '../../domain/canonical.ts';
import { covers, extentOf, mayRemember } from '../../domain/standing.ts';
import { describeLapse, lapsedSince } from '../../domain/validity.ts';
import { connectionHash } from '../catalog/connection.ts';
import { forbidden, type Refused, stricter } from './dispatch-check.ts';
import { digestOfConsent } from './shown-digest.ts';

type StandingProof = Extract<DispatchProof, { kind: 'standing' }>;

/** @param now epoch ms */
export function checkStanding(
  input: DispatchInput,
  proof: StandingProof,
  verdict: Extract<Verdict, { kind: 'allow' | 'ask' }>,
  catalog: CatalogSnapshot | undefined,
  now: number,
): Refused | undefined {
  const { decisions, shown, callId } = proof;
  const people = decisions.map(({ approver }) => approver);
  const extent = extentOf(decisions);
  const isConsent =
    extent !== undefined &&
    decisions.every(
      (decision) =>
        decision.callId === callId && decision.digest === digestOfConsent({ ...input, callId }, shown, decision.runId),
    ) &&
    Date.parse(proof.decidedAt) < Date.parse(proof.deadline) &&
    isMet(shown.approvers, people) &&
    mayRemember(shown.approvers, extent.scope) &&
    covers(extent, shown.arguments, input.arguments);
  if (!isConsent) return forbidden('The decision that stands does not cover this call.');
  if (decisions.some(({ runId }) => !input.decidedIn.includes(runId)))
    return gone('DECISION_STALE_RUN', 'The decision that stands was made before the run was reset.', verdict);
  if (extent.until !== undefined && !(now < extent.until))
    return gone('STANDING_LOST', `The decision stood until ${new Date(extent.until).toISOString()}.`, verdict);
  const grant = input.grant === undefined ? undefined : hashOf(input.grant);
  if (proof.connection !== connectionHash(catalog) || proof.grant !== grant)
    return gone('STANDING_LOST', 'The server is no longer reached as it was when the decision was made.', verdict);
  if (verdict.kind === 'ask' && !(mayRemember(verdict.approvers, extent.scope) && isMet(verdict.approvers, people)))
    return { ...stricter(verdict), message: 'Policy no longer lets a decision that stands answer this call.' };
  const rules = verdict.kind === 'ask' ? [shown.approvers, verdict.approvers] : [shown.approvers];
  const end = lapsedSince(Date.parse(proof.decidedAt), now, ...rules);
  return end === undefined ? undefined : gone('APPROVAL_LAPSED', describeLapse(end), verdict);
}

/** It needs a fresh one, of those whom policy names now. */
function gone(code: string, message: string, verdict: Extract<Verdict, { kind: 'allow' | 'ask' }>): Refused {
  return {
    kind: 'reopen',
    code,
    message,
    ...(verdict.kind === 'ask' ? { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds } : {}),
  };
}

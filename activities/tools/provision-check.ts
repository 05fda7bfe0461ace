/**
 * Whether what would be given to a server as people's answers was answered by somebody who may, to what they read.
 *
 * Does not own signatures (`activities/trust/`), nor the consent to the call (`dispatch-check.ts`).
 * 1. Answers are no consent: what does not hold is not asked of the server, and the call begins anew without it.
 * 2. They are to what a worker was asked: whatever else people were shown, their answer goes to no server (`question-mac.ts`).
 * 3. Nor does one hold of somebody whom policy does not ask any more, of another tool, or of longer ago than an approval holds. Whoever
 *    is asked then is whoever is asked for consent: where that was another, consent is asked for first.
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { ProvisionProof } from '../../contracts/dispatch-proof.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import { mayDecide } from '../../domain/approver.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { answersTo, problemInResponses } from '../../domain/input.ts';
import { answersOf } from '../../domain/provision.ts';
import { forbidden, type Refused } from './dispatch-check.ts';
import { digestOfPause } from './shown-digest.ts';
import { type Leaving, spentNow, voterOf } from './word-now.ts';

/** @param areAsked whether it is known that the server has asked these questions in this call */
export function checkProvided(
  input: DispatchInput,
  now: Leaving,
  areAsked: (requests: InputRequests) => boolean,
): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbidden('An answer is not to what was asked.');
  // Or by an earlier release, or the key is gone.
  if (!provided.every(({ about }) => areAsked(about.requests)))
    return anew('SIGNATURE_INVALID', 'What people have answered was not asked by a worker with a key of the zone.');
  if (leg !== undefined && answersTo(leg.requests, answersOf(provided)).missing.length > 0)
    return forbidden('The server has asked for input that nobody gave.');
  if (provided.some(({ provision }) => !input.decidedIn.includes(provision.runId)))
    return anew('DECISION_STALE_RUN', 'What the server asked was answered before the run was reset.');
  return spent(input, provided, now);
}

function spent({ proof }: DispatchInput, provided: readonly ProvisionProof[], now: Leaving): Refused | undefined {
  for (const each of provided) {
    const { approver } = each.provision;
    const why = spentNow(each, now, (rule) => mayDecide(rule, voterOf(approver, each)));
    if (why?.kind === 'redefined')
      return anew('DEFINITION_CHANGED', 'The tool has changed since what its server asked was answered.');
    if (why?.kind === 'lapsed')
      return anew('APPROVAL_LAPSED', `What ${approver.id} answered held until ${new Date(why.end).toISOString()}.`);
    if (why === undefined) continue;
    const message = `Policy now asks others than ${approver.id} what the server wants to know.`;
    const asked = proof.kind === 'decision' ? proof.approvers : each.approvers;
    if (canonicalJson(asked) === canonicalJson(now.approvers)) return anew('VERDICT_STRICTER', message);
    const { approvers, deadlineSeconds } = now;
    return { kind: 'reopen', code: 'VERDICT_STRICTER', message, approvers, deadlineSeconds };
  }
  return undefined;
}

/** Without what was answered. */
function anew(code: string, message: string): Refused {
  return { kind: 'reopen', code, message, asks: 'input' };
}

/** As it was shown, in time, by one of those who were asked. */
function isAnswer(input: DispatchInput, proof: ProvisionProof): boolean {
  const { provision, about, approvers, deadline, decidedAt } = proof;
  return (
    provision.callId === input.callId &&
    provision.digest === digestOfPause(input, proof, provision.runId) &&
    Date.parse(decidedAt) < Date.parse(deadline) &&
    mayDecide(approvers, voterOf(provision.approver, proof)) &&
    (provision.kind !== 'provide' || problemInResponses(about.requests, provision.responses) === undefined)
  );
}

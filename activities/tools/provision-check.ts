/**
 * Whether what would be given to a server as people's answers was answered by somebody who may, to what they read.
 *
 * Does not own signatures (`activities/trust/`), nor the consent to the call (`dispatch-check.ts`).
 * 1. Answers are no consent: what does not hold is not asked of the server, and the call begins anew without it.
 */
import type { DispatchInput } from '../../contracts/activities.ts';
import type { ProvisionProof } from '../../contracts/dispatch-proof.ts';
import { mayDecide } from '../../domain/approver.ts';
import { requestDigest } from '../../domain/digest.ts';
import { answersTo, problemInResponses } from '../../domain/input.ts';
import { answersOf } from '../../domain/provision.ts';
import type { Refused } from './dispatch-check.ts';

export function checkProvided(input: DispatchInput): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbidden('An answer is not to what was asked.');
  if (leg !== undefined && answersTo(leg.requests, answersOf(provided)).missing.length > 0)
    return forbidden('The server has asked for input that nobody gave.');
  if (provided.some(({ provision }) => !input.decidedIn.includes(provision.runId)))
    return {
      kind: 'reopen',
      code: 'DECISION_STALE_RUN',
      message: 'What the server asked was answered before the run was reset.',
      asks: 'input',
    };
  return undefined;
}

/** As it was shown, in time, by one of those who were asked. */
function isAnswer({ run, target, callId, arguments: args }: DispatchInput, proof: ProvisionProof): boolean {
  const { provision, about, generation, approvers, definitionHash, openedAt, deadline, decidedAt } = proof;
  const digest = requestDigest({
    namespace: run.namespace,
    tenant: run.initiator.tenant,
    workflowId: run.workflowId,
    runId: provision.runId,
    callId,
    generation,
    target: { ...target, definitionHash },
    arguments: args,
    approvers,
    about,
  });
  const after = Date.parse(decidedAt) - Date.parse(openedAt);
  return (
    provision.callId === callId &&
    provision.digest === digest &&
    Date.parse(decidedAt) < Date.parse(deadline) &&
    mayDecide(approvers, { ...provision.approver, after }) &&
    (provision.kind !== 'provide' || problemInResponses(about.requests, provision.responses) === undefined)
  );
}

function forbidden(message: string): Refused {
  return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message };
}

/**
 * Approvers may edit the arguments, or answer in the tool's place, only by a right that the rule gives.
 *
 * 1. Each list of the rule must give the right; silence forbids (INV-G4).
 */
import type { Decision, SignedDecision } from '../../contracts/schemas/request.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApproverRule, DecisionRight } from '../../contracts/schemas/policy.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import { byteLength } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import type { Asking } from '../state/call.ts';

/** An approval with other arguments than were shown (`domain/request/edit.ts`). */
export type EditDecision = Extract<SignedDecision, { kind: 'approve' }> & { readonly arguments: JsonObject };

export function isEdit(decision: SignedDecision): decision is EditDecision {
  return decision.kind === 'approve' && decision.arguments !== undefined;
}

export function permits({ allOf }: ApproverRule, right: DecisionRight): boolean {
  return allOf.length > 0 && allOf.every(({ may }) => may?.includes(right) === true);
}

export function refuseRight({ request, unsure, input }: Asking, decision: Decision): Refusal | undefined {
  const right = isEdit(decision) ? 'edit' : decision.kind === 'respond' ? 'respond' : undefined;
  if (right === undefined) return undefined;
  const { callId } = decision;
  if (!permits(request.approvers, right)) return notPermitted(right, callId);
  // An answer would claim that the call did not run, and an edit would make another call of it.
  if (input !== undefined)
    return refuse(
      'DECISION_NOT_PERMITTED',
      `The server has begun call ${callId} and asked for input: approve or reject it as it is.`,
      { callId },
    );
  return unsure === undefined
    ? undefined
    : refuse(
        'DECISION_NOT_PERMITTED',
        `An earlier attempt of call ${callId} may have run: approve or reject it as it is.`,
        { callId },
      );
}

/** Refuses an answer over `limits.resultBytes`: the transcript holds it like a tool's result. */
export function refuseLongAnswer(
  { callId, answer }: Extract<SignedDecision, { kind: 'respond' }>,
  { resultBytes }: Pick<Limits, 'resultBytes'>,
): Refusal | undefined {
  const bytes = byteLength(answer);
  if (bytes <= resultBytes) return undefined;
  return refuse('DECISION_INVALID', `The answer has ${bytes} bytes; limits.resultBytes allows ${resultBytes}.`, {
    callId,
    path: 'answer',
  });
}

export function notPermitted(right: DecisionRight, callId: string): Refusal {
  const what =
    right === 'edit' ? `the arguments of call ${callId} be changed` : `call ${callId} be answered in place of its tool`;
  return refuse('DECISION_NOT_PERMITTED', `Policy does not let ${what}; approve or reject it as it is.`, { callId });
}

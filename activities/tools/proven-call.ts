/**
 * What a token may say of a call whose consent was proven (`dispatch-check.ts`, `standing-check.ts`): built for nothing else, and
 * after all checks (INV-G1).
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Decision } from '../../contracts/schemas/decision.ts';
import type { IssuedCall, IssuedConsent } from '../../contracts/schemas/issued-claims.ts';
import { hashOf } from '../../domain/canonical.ts';
import type { OfferedTool } from '../../domain/toolset.ts';

/** @param verdict that this worker reached */
export function provenCall(input: DispatchInput, tool: OfferedTool, verdict: Verdict): IssuedCall {
  return {
    callId: input.callId,
    executionId: input.runId,
    tool: tool.definition.name,
    definition: tool.hash,
    arguments: hashOf(input.arguments),
    consent: consentIn(input, verdict),
  };
}

function consentIn({ proof }: DispatchInput, verdict: Verdict): IssuedConsent {
  switch (proof.kind) {
    case 'policy':
      return { kind: 'policy', rules: [...verdict.rules] };
    case 'decision':
      return {
        kind: 'decision',
        digest: proof.decision.digest,
        approvers: namesOf([proof.decision, ...(proof.further ?? [])]),
      };
    case 'standing': {
      const { callId, decisions } = proof;
      return { kind: 'standing', digest: decisions[0]?.digest ?? '', approvers: namesOf(decisions), callId };
    }
  }
}

function namesOf(decisions: readonly Decision[]): string[] {
  return [...new Set(decisions.map(({ approver }) => approver.id))];
}

/**
 * A decision in trust mode `signed`: whose it is, and whether it may be a further vote (INV-G2).
 *
 * 1. It is compared with its signature whole and as it stands, defaults written out.
 */
import type { SignedDecision } from '../contracts/schemas/decision.ts';
import type { TrustSet } from '../contracts/schemas/trust.ts';
import { hashOf } from './canonical.ts';
import { type Admission, admit } from './decision.ts';
import { isEdit } from './decision-rights.ts';
import type { Refusal } from './refusal.ts';
import type { Run, RunIds } from './run.ts';
import { checkSignature, isSameVoice, type Signer } from './signed-message.ts';

type Trusted = Pick<TrustSet, 'keys'>;

/** @param now epoch ms; undefined at dispatch */
export function checkSignedDecision(
  { signature, ...message }: SignedDecision,
  { namespace, tenant, workflowId }: Omit<RunIds, 'runId'>,
  trust: Trusted,
  now: number | undefined,
): Signer | Refusal {
  const about = {
    purpose: 'decide',
    namespace,
    tenant,
    workflowId,
    runId: message.runId,
    payload: hashOf(message),
    jti: message.decisionId,
    person: message.approver.id,
    groups: message.approver.groups,
  } as const;
  return checkSignature(signature, about, trust, now);
}

/** As `admit`, and one key is one voice. @param trust undefined in trust mode `temporal` */
export function admitSigned(
  run: Run,
  decision: SignedDecision,
  ids: Omit<RunIds, 'runId'>,
  now: number,
  { endsAt, trust }: { readonly endsAt: number; readonly trust: Trusted | undefined },
): Admission {
  const admission = admit(run, decision, ids, now, endsAt);
  if (trust === undefined || admission.kind !== 'accept' || decision.kind !== 'approve') return admission;
  // Whoever edits is the first to agree to what takes the place of the former arguments.
  if (isEdit(decision)) return admission;
  const { callId, signature = '' } = decision;
  const earlier = (admission.state.votes ?? []).map((vote) => vote.decision.signature ?? '');
  if (!isSameVoice(trust, earlier, signature)) return admission;
  return {
    kind: 'refuse',
    code: 'APPROVER_NOT_ENTITLED',
    message: `Somebody has agreed to call ${callId} with the same key; one key is one voice, and another one is needed.`,
    facts: { callId },
  };
}

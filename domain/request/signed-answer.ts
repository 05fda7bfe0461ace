/**
 * In trust mode `signed`, an answer counts only with a signature of its approver, and votes count by key (INV-G2).
 *
 * 1. The signature covers the whole decision as it stands, defaults written out.
 */
import type { SignedDecision } from '../../contracts/schemas/request.ts';
import type { SignedPurpose, TrustSet } from '../../contracts/schemas/trust.ts';
import { checkSignature, isSameVoice, type Signer } from '../signing/message.ts';
import { type Answerable, isEdit, type Run, type RunIds, type WaitingForConsent } from '../state/run.ts';
import { byteLength, canonicalJson, hashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { type Admission, admit } from './decision.ts';

type Trusted = Pick<TrustSet, 'keys'>;

/** Signature purposes of answers to a request; each is good for its own update only. */
export type AnswerPurpose = Extract<SignedPurpose, 'decide' | 'resolveOutcome' | 'provideInput' | 'authorize'>;

/** Checks the signature of an answer. @param now epoch ms; undefined at dispatch */
export function checkSignedAnswer(
  purpose: AnswerPurpose,
  { signature, ...message }: Answerable & { readonly signature?: string },
  { namespace, tenant, workflowId }: Omit<RunIds, 'runId'>,
  trust: Trusted,
  now: number | undefined,
): Signer | Refusal {
  const about = {
    purpose,
    namespace,
    tenant,
    workflowId,
    runId: message.runId,
    payload: hashOf(message),
    jti: message.decisionId,
    person: message.approver.id,
    groups: message.approver.groups,
  };
  return checkSignature(signature, about, trust, now);
}

/** UTF-8 bytes of votes and extensions of one request: signed messages are kept whole, and travel with the request. */
export const MOST_SIGNED_BYTES = 32_768;

function refuseHeavy({ votes = [], request }: WaitingForConsent, decision: SignedDecision): Refusal | undefined {
  const bytes = byteLength(canonicalJson([votes, request.extended?.by ?? [], decision]));
  if (bytes <= MOST_SIGNED_BYTES || decision.kind === 'withdraw' || decision.kind === 'reject') return undefined;
  const { callId } = decision;
  return refuse(
    'LIMIT_REACHED',
    `What people have signed of call ${callId} would have ${bytes} bytes; ${MOST_SIGNED_BYTES} are allowed. Say it with a shorter comment.`,
    { callId, limit: 'signed' },
  );
}

/** Admits a decision as `admit` does, and lets one key vote once; for runs of trust mode `signed`. */
export function admitSigned(
  run: Run,
  decision: SignedDecision,
  ids: Omit<RunIds, 'runId'>,
  now: number,
  { endsAt, trust }: { readonly endsAt: number; readonly trust: Trusted },
): Admission {
  const admission = admit(run, decision, ids, now, endsAt);
  if (admission.kind !== 'accept') return admission;
  // An edit clears the former votes, so its signer is the first to vote.
  if (isEdit(decision)) return admission;
  const heavy = refuseHeavy(admission.state, decision);
  if (heavy !== undefined) return heavy;
  if (decision.kind !== 'approve') return admission;
  const earlier = (admission.state.votes ?? []).map((vote) => vote.decision);
  return refuseSameKey(trust, earlier, decision, 'agreed to') ?? admission;
}

/** Answers with the same key count as one. */
export function refuseSameKey(
  trust: Trusted,
  earlier: readonly { readonly signature?: string }[],
  { callId, signature = '' }: Pick<SignedDecision, 'callId' | 'signature'>,
  did: 'agreed to' | 'consented for',
): Refusal | undefined {
  const signatures = earlier.map((each) => each.signature ?? '');
  if (!isSameVoice(trust, signatures, signature)) return undefined;
  const message = `Somebody has ${did} call ${callId} with the same key; one key is one voice, and another one is needed.`;
  return refuse('APPROVER_NOT_ENTITLED', message, { callId });
}

/**
 * Checks who sent a message: in trust mode `temporal` every sender is believed, in mode `signed` only a trusted key's
 * signature (`domain/signing/message.ts`). Answers to requests come here in mode `signed` only.
 *
 * 1. A validator verifies, so that nothing unproven enters history (INV-G2). Anyone who may write to the namespace can
 *    write history itself, so the handlers of answers to requests verify again, by the keys of the run.
 * 2. A run that was started signed takes no message until it has read its keys (INV-G4).
 * 3. Keys are read when a sender asks for it, one reading at a time and seldom: a waiting run has no timer for it.
 */
import { workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { SIGNING } from '../../contracts/crypto.ts';
import type { ErrorCode, ErrorFacts } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { SignedDecision } from '../../contracts/schemas/request.ts';
import type { CatalogPurpose, SignedPurpose, TrustSet } from '../../contracts/schemas/trust.ts';
import type { PauseAnswer } from '../../domain/request/pause.ts';
import { type AnswerPurpose, checkSignedAnswer } from '../../domain/request/signed-answer.ts';
import type { Parsed } from '../../domain/shapes/inputs.ts';
import { wasGoodAt } from '../../domain/signing/jws.ts';
import { checkSignature, maySend, openMessage, UNSIGNED } from '../../domain/signing/message.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import type { LiveRun } from './live-run.ts';

const KEYLESS = 'The run has just begun and has not read its keys yet. Send the message again.';

export function opened<T>(live: LiveRun, input: unknown, parse: (message: unknown) => Parsed<T>): Parsed<T> {
  return parse(live.isSigned ? openMessage(input).message : input);
}

/** Parses an answer to a request and keeps its signature, which the handler and the dispatch ask for. */
export function openedAnswer<T extends object>(
  input: unknown,
  parse: (message: unknown) => Parsed<T>,
): Parsed<T & { readonly signature?: string }> {
  const { message, signature } = openMessage(input);
  const shape = parse(message);
  if (shape.kind === 'bad' || signature === undefined) return shape;
  return { kind: 'ok', value: { ...shape.value, signature } };
}

export function assertSignedAnswer(live: LiveRun, purpose: AnswerPurpose, answer: PauseAnswer): void {
  const trust = freshTrust(live, answer.signature);
  const checked = checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());
  if (checked.kind === 'refuse') throw coded(checked.code, checked.message, checked.facts);
}

/** For handlers: refuses an answer that is not proven. It asks for no Temporal run, which a reset changes (INV-D4). */
export function refuseUnproven(live: LiveRun, purpose: AnswerPurpose, answer: PauseAnswer): Refusal | undefined {
  const { callId, signature = '' } = answer;
  if (live.trust === undefined) return refuse('TRUST_KEY_UNKNOWN', KEYLESS, { callId });
  const checked = checkSignedAnswer(purpose, answer, live.ids, live.trust, undefined);
  if (checked.kind === 'refuse') return checked;
  if (wasGoodAt(signature, Date.now() / 1_000, SIGNING.recordedWithin)) return undefined;
  return refuse('SIGNATURE_EXPIRED', 'The answer was not taken while its signature was good.', { callId });
}

/** Checks a decision by signal. Its sender cannot be told that keys must be read first: stale ones are read here. */
export function refuseUnsigned(live: LiveRun, decision: SignedDecision): Refusal | undefined {
  const { trust } = live;
  if (trust === undefined) return refuse('TRUST_KEY_UNKNOWN', KEYLESS, { callId: decision.callId });
  if (isStale(live, trust)) {
    if (live.keys.mayBegin) refreshTrust(live);
    return refuse('TRUST_KEY_UNKNOWN', 'The run has not read its keys for a while.', { callId: decision.callId });
  }
  const checked = checkSignedAnswer('decide', decision, live.ids, trust, Date.now());
  return checked.kind === 'refuse' ? checked : undefined;
}

/** Checks an update that is no answer and has senders of its own, for validators. @param message with its defaults */
export function assertSigned(
  live: LiveRun,
  purpose: Exclude<SignedPurpose, 'start' | AnswerPurpose | CatalogPurpose>,
  input: unknown,
  message: unknown,
  { person, jti, groups }: { readonly person: string; readonly jti?: string; readonly groups?: readonly string[] },
): void {
  if (!live.isSigned) return;
  const { signature } = openMessage(input);
  const trust = freshTrust(live, signature);
  const { namespace, tenant, workflowId } = live.ids;
  const about = {
    purpose,
    namespace,
    tenant,
    workflowId,
    runId: live.namedBy(signature),
    payload: hashOf(message),
    person,
    ...defined({ jti, groups }),
  };
  const checked = checkSignature(signature, about, trust, Date.now());
  if (checked.kind === 'refuse') throw coded(checked.code, checked.message, checked.facts);
  // The rule of the standing decision says who may forget it; that check is made elsewhere.
  if (purpose === 'forget') return;
  if (maySend(purpose, trust, live.prepared.initiator.id, person, checked.groups)) return;
  throw coded(
    'SIGNER_NOT_ENTITLED',
    `${person} may not send ${purpose} to this run (trust.may.${purpose}). Nothing was changed.`,
  );
}

/** @throws if the keys have to be read first */
function freshTrust(live: LiveRun, signature: string | undefined): TrustSet {
  if (signature === undefined) throw coded('SIGNATURE_MISSING', UNSIGNED);
  const { trust } = live;
  if (trust === undefined) throw coded('TRUST_KEY_UNKNOWN', KEYLESS);
  if (!isStale(live, trust)) return trust;
  throw coded(
    'TRUST_KEY_UNKNOWN',
    'The run has not read its keys for a while. Let it read them again (refreshTrust) and send the message again.',
  );
}

function isStale(live: LiveRun, { maxAgeSeconds }: TrustSet): boolean {
  return Date.now() - (live.trustReadAt ?? 0) > maxAgeSeconds * 1_000;
}

export function assertRefreshable(live: LiveRun): void {
  if (!live.isPrepared || live.prepared.trust === undefined)
    throw coded('TRUST_REFRESH_TOO_SOON', 'The run has no keys yet, or is in trust mode temporal and needs none.');
  if (live.closing || !live.keys.mayBegin)
    throw coded(
      'TRUST_REFRESH_TOO_SOON',
      'The run reads its keys now, or has just read them. Send your message again.',
    );
}

/** Begins to read the keys; nobody waits for the result (INV-D3). */
export function refreshTrust(live: LiveRun): void {
  void live.keys.read(live, live.prepared.initiator.tenant, (trust) => {
    // A worker in trust mode `temporal` knows no keys, so the run keeps those that it has.
    if (trust !== undefined) live.believe(trust);
  });
}

function coded(code: ErrorCode, message: string, facts: ErrorFacts = {}): Error {
  return failureOf(code, message, { runId: workflowInfo().workflowId, ...facts });
}

/**
 * What a run believes of who sent a message: everything in trust mode `temporal`; in mode `signed`, what a trusted key has signed.
 *
 * Owns: signatures where messages arrive, and reading the keys anew. Does not own: what a signature proves (`domain/signed-message.ts`).
 * 1. A validator verifies, so that nothing unproven enters history (INV-G2). What a handler gets is in history: it takes the
 *    signature off. A signal is in history anyway: its handler verifies.
 * 2. Until a run that was started signed has read its keys, it takes no message (INV-G4).
 * 3. Keys are read when a sender asks for it, once at a time and seldom: a run that waits has no timer for it.
 */
import { workflowInfo } from '@temporalio/workflow';
import type { ErrorCode, ErrorFacts } from '../contracts/errors.ts';
import { failureOf } from '../contracts/failure.ts';
import type { SignedDecision } from '../contracts/schemas/decision.ts';
import type { CatalogPurpose, SignedPurpose, TrustSet } from '../contracts/schemas/trust.ts';
import { hashOf } from '../domain/canonical.ts';
import { type Refusal, refuse } from '../domain/refusal.ts';
import type { Parsed } from '../domain/messages.ts';
import { claimedRunId } from '../domain/jws.ts';
import type { PauseAnswer } from '../domain/pause.ts';
import { type AnswerPurpose, checkSignedAnswer, checkSignedDecision } from '../domain/signed-decision.ts';
import { checkSignature, maySend, openMessage, UNSIGNED } from '../domain/signed-message.ts';
import { parseDecision } from '../domain/messages.ts';
import { trustActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';
import { answered, assertFailure, type Unread } from './unread.ts';

/** Between two readings: whoever may write to the namespace may ask for one. */
const MOST_OFTEN_MS = 30_000;

const KEYLESS = 'The run has just begun and has not read its keys yet. Send the message again.';

/** Takes the signature off where this run wants one, and reads what is left. */
export function opened<T>(live: LiveRun, input: unknown, parse: (message: unknown) => Parsed<T>): Parsed<T> {
  return parse(live.isSigned ? openMessage(input).message : input);
}

/** A decision keeps its signature: dispatch asks for it. */
export function openedDecision(live: LiveRun, input: unknown): Parsed<SignedDecision> {
  return openedAnswer(live, input, parseDecision);
}

/** So does every answer to a request. */
export function openedAnswer<T extends object>(
  live: LiveRun,
  input: unknown,
  parse: (message: unknown) => Parsed<T>,
): Parsed<T & { readonly signature?: string }> {
  const shape = opened(live, input, parse);
  const { signature } = live.isSigned ? openMessage(input) : {};
  if (shape.kind === 'bad' || signature === undefined) return shape;
  return { kind: 'ok', value: { ...shape.value, signature } };
}

/** For validators. */
export function assertSignedAnswer(live: LiveRun, purpose: AnswerPurpose, answer: PauseAnswer): void {
  const trust = freshTrust(live, answer.signature);
  if (trust === undefined) return;
  const checked = checkSignedAnswer(purpose, answer, live.ids, trust, Date.now());
  if (checked.kind === 'refuse') throw refusal(checked);
}

/** For the signal, whose sender is not told that the keys have to be read first: they are. */
export function refuseUnsigned(live: LiveRun, decision: SignedDecision): Refusal | undefined {
  if (!live.isSigned) return undefined;
  const { trust } = live;
  if (trust === undefined) return refuse('TRUST_KEY_UNKNOWN', KEYLESS, { callId: decision.callId });
  if (isStale(live, trust)) {
    if (Date.now() - live.trustAskedAt >= MOST_OFTEN_MS) refreshTrust(live);
    return refuse('TRUST_KEY_UNKNOWN', 'The run has not read its keys for a while.', { callId: decision.callId });
  }
  const checked = checkSignedDecision(decision, live.ids, trust, Date.now());
  return checked.kind === 'refuse' ? checked : undefined;
}

/** For validators of updates that are no decision, each with senders of its own. @param message as it was read, defaults written out */
export function assertSigned(
  live: LiveRun,
  purpose: Exclude<SignedPurpose, 'start' | AnswerPurpose | CatalogPurpose>,
  input: unknown,
  message: unknown,
  { person, jti, groups }: { readonly person: string; readonly jti?: string; readonly groups?: readonly string[] },
): void {
  const { signature } = openMessage(input);
  const trust = freshTrust(live, signature);
  if (trust === undefined) return;
  const { namespace, tenant, workflowId, runId } = live.ids;
  const claimed = signature === undefined ? undefined : claimedRunId(signature);
  const about = {
    purpose,
    namespace,
    tenant,
    workflowId,
    // Of this execution, or of one before it that counts as it does.
    runId: live.decidedIn.find((earlier) => earlier === claimed) ?? runId,
    payload: hashOf(message),
    person,
    ...(jti === undefined ? {} : { jti }),
    ...(groups === undefined ? {} : { groups }),
  };
  const checked = checkSignature(signature, about, trust, Date.now());
  if (checked.kind === 'refuse') throw refusal(checked);
  // Whoever may decide such a call: that is asked of its rule.
  if (purpose === 'forget') return;
  if (maySend(purpose, trust, live.prepared.initiator.id, person, checked.groups)) return;
  throw coded(
    'SIGNER_NOT_ENTITLED',
    `${person} may not send ${purpose} to this run (trust.may.${purpose}). Nothing was changed.`,
  );
}

/** Undefined in trust mode `temporal`. @throws where the keys have to be read first */
function freshTrust(live: LiveRun, signature: string | undefined): TrustSet | undefined {
  if (!live.isSigned) return undefined;
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

/** For the validator of `refreshTrust`. */
export function assertRefreshable(live: LiveRun): void {
  if (!live.isPrepared || live.prepared.trust === undefined)
    throw coded('TRUST_REFRESH_TOO_SOON', 'The run has no keys yet, or is in trust mode temporal and needs none.');
  if (live.closing || live.isReadingTrust || Date.now() - live.trustAskedAt < MOST_OFTEN_MS)
    throw coded(
      'TRUST_REFRESH_TOO_SOON',
      'The run reads its keys now, or has just read them. Send your message again.',
    );
}

/** Begins to read the keys; nobody waits for it (INV-D3). */
export function refreshTrust(live: LiveRun): void {
  if (live.isReadingTrust) return;
  live.isReadingTrust = true;
  live.trustAskedAt = Date.now();
  void trustActivities()
    .readTrust(live.prepared.initiator.tenant)
    .then(
      (answer) => {
        const trust = trustIn(live, answer);
        // A worker in trust mode `temporal` knows no keys: the run keeps those that it has.
        if (trust !== undefined) live.believe(trust, Date.now());
      },
      // Nobody awaits what is thrown here, so that it fails the workflow task. Else what was known stays; whoever needs more asks again.
      (error: unknown) => assertFailure(error),
    )
    .then(() => {
      live.isReadingTrust = false;
    });
}

function trustIn(live: LiveRun, answer: Unread<TrustSet | undefined>): TrustSet | undefined {
  try {
    return answered(live, 'readTrust?', answer);
  } catch (error) {
    assertFailure(error);
    return undefined;
  }
}

function refusal({ code, message, facts }: Refusal): Error {
  return coded(code, message, facts);
}

function coded(code: ErrorCode, message: string, facts: ErrorFacts = {}): Error {
  return failureOf(code, message, { runId: workflowInfo().workflowId, ...facts });
}

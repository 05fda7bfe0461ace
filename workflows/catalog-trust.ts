/**
 * What a catalog believes of who sent a message: everything until it knows of keys; from then on what a trusted key has signed.
 *
 * Owns: signatures where messages arrive, and reading the keys. Does not own: what a signature proves (`domain/signed-change.ts`).
 * 1. A validator verifies, so that nothing unproven enters history (INV-G2). A handler takes the signature off.
 * 2. Keys come with the answer of each review, and when a sender asks for them; there is no timer for it.
 * 3. A catalog that knows of no keys refuses what is signed: it could not tell who signed it. What is unsigned it takes, and the
 *    review, which has keys of its own, does not believe it (INV-G4).
 */
import { workflowInfo } from '@temporalio/workflow';
import type { SignedChange } from '../contracts/catalog-activities.ts';
import type { ErrorCode, ErrorFacts } from '../contracts/errors.ts';
import { failureOf } from '../contracts/failure.ts';
import type { Approver } from '../contracts/schemas/decision.ts';
import type { CatalogPurpose } from '../contracts/schemas/trust.ts';
import { hashOf } from '../domain/canonical.ts';
import { claimedRunId } from '../domain/jws.ts';
import type { Refusal } from '../domain/refusal.ts';
import { checkSignedChange } from '../domain/signed-change.ts';
import { type Opened, openMessage } from '../domain/signed-message.ts';
import { trustActivities } from './activity-stubs.ts';
import type { LiveCatalog } from './live-catalog.ts';
import { answered, assertFailure } from './unread.ts';

/** Between two readings: whoever may write to the namespace may ask for one. */
const MOST_OFTEN_MS = 30_000;

interface Message {
  readonly requestId: string;
  readonly by: Approver;
}

/** Takes the signature off where this catalog wants one. */
export function openedChange(live: LiveCatalog, input: unknown): Opened {
  return live.signing === undefined ? { message: input } : openMessage(input);
}

/** For the validator. @param message as it was read, defaults written out */
export function assertSignedChange(
  live: LiveCatalog,
  purpose: CatalogPurpose,
  message: Message,
  signature: string | undefined,
): void {
  const { signing } = live;
  if (signing === undefined) return;
  const { tenant, server } = live.catalog;
  const { namespace, runId } = workflowInfo();
  const claimed = signature === undefined ? undefined : claimedRunId(signature);
  // Of this execution, or of one before it that counts as it does.
  const counted = live.signedFor.find((earlier) => earlier === claimed) ?? runId;
  const place = { namespace, tenant, server, runId: counted };
  const said = { purpose, requestId: message.requestId, payload: hashOf(message), signature };
  if (signature !== undefined && Date.now() - signing.readAt > signing.trust.maxAgeSeconds * 1_000)
    throw coded(
      live,
      'TRUST_KEY_UNKNOWN',
      'The catalog has not read its keys for a while. Let it read them again (refreshTrust) and send the message again.',
    );
  const checked = checkSignedChange(said, message.by, place, signing.trust, Date.now());
  if (checked.kind === 'refuse') throw refusal(live, checked);
}

/** For the validator: a signed message to a catalog that knows of no keys yet. */
export function assertOpenable(live: LiveCatalog, input: unknown): void {
  if (live.signing !== undefined || openMessage(input).signature === undefined) return;
  throw coded(
    live,
    'TRUST_KEY_UNKNOWN',
    'The catalog knows of no keys. Let it read them (refreshTrust) and send the message again; in trust mode temporal without a signature.',
  );
}

/** What the review proves again. */
export function signedChange(
  purpose: CatalogPurpose,
  message: Message,
  signature: string | undefined,
): SignedChange | undefined {
  if (signature === undefined) return undefined;
  return { purpose, requestId: message.requestId, payload: hashOf(message), signature };
}

/** For the validator of `refreshTrust`. */
export function assertTrustReadable(live: LiveCatalog): void {
  if (!live.isClosed && !live.isReadingTrust && Date.now() - live.trustAskedAt >= MOST_OFTEN_MS) return;
  throw coded(
    live,
    'TRUST_REFRESH_TOO_SOON',
    'The catalog reads its keys now, or has just read them. Send your message again.',
  );
}

/** Its sender waits: a catalog that begins can be signed for when this has ended. */
export async function readTrust(live: LiveCatalog): Promise<void> {
  if (live.isReadingTrust) return;
  live.isReadingTrust = true;
  live.trustAskedAt = Date.now();
  try {
    const read = answered(live, 'readTrust?', await trustActivities().readTrust(live.catalog.tenant));
    live.believe(read && { keys: read.keys, maxAgeSeconds: read.maxAgeSeconds });
  } catch (error) {
    assertFailure(error);
    // What was known stays; whoever needs more asks again.
    throw coded(live, 'TRUST_UNAVAILABLE', 'The trusted keys could not be read; nothing was changed. Try again.');
  } finally {
    live.isReadingTrust = false;
  }
}

export function refusal(live: LiveCatalog, { code, message, facts }: Refusal): Error {
  return coded(live, code, message, facts);
}

function coded({ catalog: { tenant, server } }: LiveCatalog, code: ErrorCode, message: string, facts: ErrorFacts = {}) {
  return failureOf(code, message, { tenant, server, ...facts });
}

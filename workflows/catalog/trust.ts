/**
 * Checks who sent a message to a catalog: every sender is believed until it knows keys, then only a trusted key's
 * signature (`domain/catalog/signed-change.ts`).
 *
 * 1. A validator verifies, so that nothing unproven enters history (INV-G2). A handler only removes the signature.
 * 2. Keys come with the answer of each review, and when a sender asks for them; there is no timer for it.
 * 3. A catalog without keys refuses signed messages, because it could not tell who signed them. It takes unsigned
 *    messages, but the review, which has keys of its own, does not believe them (INV-G4).
 */
import { workflowInfo } from '@temporalio/workflow';
import type { ErrorCode, ErrorFacts } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { CatalogRefresh } from '../../contracts/schemas/catalog.ts';
import type { CatalogPurpose } from '../../contracts/schemas/trust.ts';
import type { SignedChange } from '../../contracts/wire/catalog.ts';
import { checkSignedChange } from '../../domain/catalog/signed-change.ts';
import { type Opened, openMessage } from '../../domain/signing/message.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import type { LiveCatalog } from './live-catalog.ts';

/** What all messages to a catalog have. */
export type Message = CatalogRefresh;

/** Removes the signature. @throws ApplicationFailure if a signed message comes before the catalog knows any keys */
export function openedChange(live: LiveCatalog, input: unknown): Opened {
  const opened = openMessage(input);
  if (live.signing !== undefined || opened.signature === undefined) return opened;
  throw coded(
    live,
    'TRUST_KEY_UNKNOWN',
    'The catalog knows of no keys. Let it read them (refreshTrust) and send the message again; in trust mode temporal without a signature.',
  );
}

/** For the validator. @param message with its defaults filled in */
export function assertSignedChange(
  live: LiveCatalog,
  purpose: CatalogPurpose,
  message: Message,
  signature: string | undefined,
): void {
  const { signing } = live;
  if (signing === undefined) return;
  const { tenant, server } = live.catalog;
  const place = { namespace: workflowInfo().namespace, tenant, server, runId: live.namedBy(signature) };
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

export function signedChange(
  purpose: CatalogPurpose,
  message: Message,
  signature: string | undefined,
): SignedChange | undefined {
  if (signature === undefined) return undefined;
  return { purpose, requestId: message.requestId, payload: hashOf(message), signature };
}

export function assertTrustReadable(live: LiveCatalog): void {
  if (!live.isClosed && live.keys.mayBegin) return;
  throw coded(
    live,
    'TRUST_REFRESH_TOO_SOON',
    'The catalog reads its keys now, or has just read them. Send your message again.',
  );
}

/** Reads the keys while the sender waits: once this has ended, messages to a new catalog can be signed. */
export async function readTrust(live: LiveCatalog): Promise<void> {
  const isRead = await live.keys.read(live, live.catalog.tenant, (trust) =>
    live.believe(trust && { keys: trust.keys, maxAgeSeconds: trust.maxAgeSeconds }),
  );
  if (!isRead)
    throw coded(live, 'TRUST_UNAVAILABLE', 'The trusted keys could not be read; nothing was changed. Try again.');
}

export function refusal(live: LiveCatalog, { code, message, facts }: Refusal): Error {
  return coded(live, code, message, facts);
}

function coded({ catalog: { tenant, server } }: LiveCatalog, code: ErrorCode, message: string, facts: ErrorFacts = {}) {
  return failureOf(code, message, { tenant, server, ...facts });
}

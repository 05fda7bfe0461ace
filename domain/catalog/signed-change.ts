/**
 * In trust mode `signed`, a catalog takes a change only with a signature, good for this catalog alone (INV-G2).
 *
 * 1. The signature covers the whole message, defaults written out.
 * 2. The person who agrees holds another key than the one who asked: one key counts once.
 */
import type { Approver } from '../../contracts/schemas/request.ts';
import type { CatalogDecision, PendingChange } from '../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { CatalogIdentity, SignedChange } from '../../contracts/wire/catalog.ts';
import { claimOf, signatureEvidence } from '../signing/jws.ts';
import { checkSignature, isSameVoice, type Signer } from '../signing/message.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { catalogId } from './state.ts';

type Trusted = Pick<TrustSet, 'keys'>;

interface CatalogPlace extends CatalogIdentity {
  readonly namespace: string;
  readonly runId: string;
}

type SignedFields = Omit<SignedChange, 'signature' | 'asked'> & { readonly signature?: string | undefined };

/** Checks the signature of a change. @param now epoch ms; undefined if the message was taken before */
export function checkSignedChange(
  { purpose, requestId, payload, signature }: SignedFields,
  by: Approver,
  { namespace, runId, tenant, server }: CatalogPlace,
  trust: Trusted,
  now: number | undefined,
): Signer | Refusal {
  if (signature === undefined)
    return refuse(
      'SIGNATURE_MISSING',
      'This catalog takes signed messages only; sign it with a trusted key. Nothing was changed.',
      { tenant, server },
    );
  const workflowId = catalogId({ tenant, server });
  const about = {
    purpose,
    namespace,
    tenant,
    workflowId,
    runId,
    payload,
    jti: requestId,
    person: by.id,
    groups: by.groups,
  } as const;
  return checkSignature(signature, about, trust, now);
}

/** Checks that the key of who asked for a change is still trusted. The content was compared when it was taken. */
export function checkAsked(
  { by, signature }: NonNullable<SignedChange['asked']>,
  { namespace, tenant, server }: CatalogPlace,
  trust: Trusted,
): Signer | Refusal {
  const said = (name: string): string => (signature === undefined ? '' : (claimOf(signature, name) ?? ''));
  // Only these two purposes open a change.
  const purpose = said('purpose') === 'catalog.connect' ? 'catalog.connect' : 'catalog.setToolPolicies';
  const message = { purpose, requestId: said('jti'), payload: said('payload'), signature } as const;
  return checkSignedChange(message, by, { namespace, tenant, server, runId: said('runId') }, trust, undefined);
}

/** Refuses an agreement by the key of the person who asked, or by another key of the same holder. */
export function refuseSameVoice(
  { changeId, verdict }: Pick<CatalogDecision, 'changeId' | 'verdict'>,
  pending: readonly PendingChange[],
  signature: string,
  trust: Trusted,
): Refusal | undefined {
  const asked = pending.find((change) => change.changeId === changeId);
  if (verdict !== 'approve' || asked?.signature === undefined) return undefined;
  if (!isSameVoice(trust, [asked.signature], signature)) return undefined;
  return refuse(
    'APPROVER_NOT_ENTITLED',
    `Change ${changeId} was asked for with the same key; one key is one voice, and another one is needed. Nothing was changed.`,
    { changeId },
  );
}

/** Adds evidence of a signature to each fact that its sender caused. */
export function witnessed(
  facts: readonly LedgerFact[],
  by: Approver,
  signature: string | undefined,
): readonly LedgerFact[] {
  if (signature === undefined) return facts;
  const evidence = signatureEvidence(signature);
  return facts.map((fact) => {
    switch (fact.kind) {
      case 'catalog.connected':
      case 'catalog.disconnected':
      case 'catalog.change-opened':
        return { ...fact, signature: evidence };
      case 'catalog.change-closed':
        // An expired change is noticed by the next sender, who did not cause it.
        return fact.status === 'expired' ? fact : { ...fact, signature: evidence };
      case 'catalog.policy':
        return fact.countersignedBy?.id === by.id
          ? { ...fact, countersignature: evidence }
          : { ...fact, signature: evidence };
      default:
        return fact;
    }
  });
}

/**
 * A change of a catalog in trust mode `signed`: whose it is, and whether it may be the word of a second administrator (INV-G2).
 *
 * 1. It is compared with its signature whole, defaults written out, and is good for one catalog.
 * 2. Who agrees holds another key than who asked: one key is one voice.
 */
import type { Approver } from '../../contracts/schemas/answer.ts';
import type { CatalogDecision, PendingChange } from '../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { CatalogIdentity, SignedChange } from '../../contracts/wire/catalog.ts';
import { claimOf, signatureEvidence } from '../signing/jws.ts';
import { checkSignature, isSameVoice, type Signer } from '../signing/message.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { catalogId } from './state.ts';

type Trusted = Pick<TrustSet, 'keys'>;

/** Where a catalog lives: the Temporal run is the one that stands in its messages. */
interface CatalogPlace extends CatalogIdentity {
  readonly namespace: string;
  readonly runId: string;
}

type SignedFields = Omit<SignedChange, 'signature' | 'asked'> & { readonly signature?: string | undefined };

/** @param now epoch ms; undefined where it was taken before */
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

/** Is the key of whoever asked for a change still trusted to say what it said? What it said was compared when it was taken. */
export function checkAsked(
  { by, signature }: NonNullable<SignedChange['asked']>,
  { namespace, tenant, server }: CatalogPlace,
  trust: Trusted,
): Signer | Refusal {
  const said = (name: string): string => (signature === undefined ? '' : (claimOf(signature, name) ?? ''));
  // Only these two open a change.
  const purpose = said('purpose') === 'catalog.connect' ? 'catalog.connect' : 'catalog.setToolPolicies';
  const message = { purpose, requestId: said('jti'), payload: said('payload'), signature } as const;
  return checkSignedChange(message, by, { namespace, tenant, server, runId: said('runId') }, trust, undefined);
}

/** An agreement by the key of whoever asked, or by one of the same holder, is none. */
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

/** What the ledger says of a message that was signed: each fact of its sender names the signature. */
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
        // One that expired is noticed by whoever comes next.
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

/**
 * In trust mode `signed` this file proves that the person named in a change of a catalog asked for it, by this worker's
 * own keys and what Temporal reports, not by what the workflow says.
 *
 * 1. Only a catalog under its own id, on the queue of these workers, is answered.
 * 2. The message was signed for the Temporal run that asks, or for one before it in the same chain.
 * 3. The person who agrees to a loosening holds another key than the person who asked for it, and both keys count now.
 */
import type { Review, ReviewInput } from '../../contracts/wire/catalog.ts';
import { CATALOG_WORKFLOW } from '../../contracts/names.ts';
import type { CatalogTrust } from '../../contracts/schemas/trust.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { claimOf, wasGoodAt } from '../../domain/signing/jws.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import { checkAsked, checkSignedChange } from '../../domain/catalog/signed-change.ts';
import { isSameVoice } from '../../domain/signing/message.ts';
import type { StartProofParts } from './start-proof.ts';
import { checkedByKeys } from './keys.ts';
import { isOfChain } from './executions.ts';
import type { Scheduler } from '../kit/activity.ts';

export type ChangeProofParts = Pick<StartProofParts, 'keys' | 'readExecution' | 'taskQueue'>;

/** A message waits for the ones before it, and this activity waits for a worker. */
const REVIEWED_WITHIN_S = 600;

/** @throws CountersignError if keys or Temporal cannot be read now */
export async function proveChange(
  parts: ChangeProofParts,
  input: ReviewInput,
  scheduler: Scheduler,
): Promise<Pick<Review, 'trust' | 'unproven'>> {
  const misplaced = await misplacedIn(parts, input, scheduler);
  if (misplaced !== undefined) return { unproven: misplaced };
  const {
    trust: { keys, maxAgeSeconds },
    checked: doubt,
  } = await checkedByKeys(
    parts.keys,
    input.tenant,
    (set) => doubtIn(input, scheduler, set),
    (found) => found?.code === 'TRUST_KEY_UNKNOWN',
  );
  const trust: CatalogTrust = { keys, maxAgeSeconds };
  const told = input.trustHash === hashOf(trust) ? 'unchanged' : trust;
  const unproven = doubt ?? (await outOfChain(parts, input, scheduler));
  return { trust: told, ...(unproven === undefined ? {} : { unproven: lasting(unproven) }) };
}

async function misplacedIn(
  { readExecution, taskQueue }: ChangeProofParts,
  { tenant, server }: ReviewInput,
  { workflowType, workflowId, runId }: Scheduler,
): Promise<NonNullable<Review['unproven']> | undefined> {
  const isNamed = workflowType === CATALOG_WORKFLOW && workflowId === catalogId({ tenant, server });
  const own = isNamed ? await readExecution(workflowId, runId, 'living') : undefined;
  if (own?.taskQueue === taskQueue) return undefined;
  return {
    code: 'CATALOG_FORBIDDEN',
    message: 'This is no catalog of these workers (trust.mode: signed); nothing was changed.',
    facts: { tenant, server },
  };
}

function doubtIn({ tenant, server, by, signed }: ReviewInput, scheduler: Scheduler, trust: CatalogTrust) {
  const signature = signed?.signature;
  const place = {
    namespace: scheduler.namespace,
    tenant,
    server,
    // Which runs count is checked separately.
    runId: (signature === undefined ? undefined : claimOf(signature, 'runId')) ?? '',
  };
  const { purpose = 'catalog.refresh', requestId = '', payload = '', asked } = signed ?? {};
  const checked = checkSignedChange({ purpose, requestId, payload, signature }, by, place, trust, undefined);
  if (checked.kind === 'refuse') return checked;
  if (!wasGoodAt(signature ?? '', Date.now() / 1_000, REVIEWED_WITHIN_S))
    return refuse('SIGNATURE_EXPIRED', 'The signature has expired (exp); sign the message again.', { tenant, server });
  if (asked === undefined) return undefined;
  const opener = checkAsked(asked, place, trust);
  if (opener.kind === 'refuse')
    return refuse(
      opener.code,
      `What ${asked.by.id} asked for is not proven, or no longer: the key may have been revoked. Reject the change, and ask for it again.`,
      { tenant, server },
    );
  if (!isSameVoice(trust, [asked.signature ?? ''], signature ?? '')) return undefined;
  return refuse('APPROVER_NOT_ENTITLED', 'The change was asked for with the same key; one key is one voice.', {
    tenant,
    server,
  });
}

async function outOfChain(
  { readExecution }: ChangeProofParts,
  { signed, tenant, server }: ReviewInput,
  { workflowId, runId }: Scheduler,
): Promise<Refusal | undefined> {
  const claimed = claimOf(signed?.signature ?? '', 'runId');
  if (claimed === undefined || claimed === runId) return undefined;
  if (await isOfChain(readExecution, workflowId, runId, claimed)) return undefined;
  return refuse('SIGNATURE_INVALID', 'The message was signed for a Temporal run that is not of this chain.', {
    tenant,
    server,
  });
}

/** Makes a refusal that is not to be sent again: the key was sought where it would be. */
function lasting({ code, message, facts }: Refusal): NonNullable<Review['unproven']> {
  return { code: code === 'TRUST_KEY_UNKNOWN' ? 'SIGNER_NOT_ENTITLED' : code, message, facts };
}

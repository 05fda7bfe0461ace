/** A grant for a run that is under way, in place of one that its server takes no more. */
import type { JWK } from 'jose';
import { CountersignError } from '../contracts/errors.ts';
import { SPEC_HASH_MEMO } from '../contracts/names.ts';
import type { Grant } from '../contracts/schemas/run-spec.ts';
import { sealAuthorization } from './sealing.ts';

export interface FreshGrant {
  readonly server: string;
  /** A plain OAuth access token. */
  readonly authorization: string;
  /** Where it goes and to which key it is sealed, of the caller's own configuration; never of the run. */
  readonly target: { readonly url: string; readonly key: JWK };
  /** Default: 30 days. */
  readonly expiresInSeconds?: number;
}

const DEFAULT_SECONDS = 2_592_000;

/** @param memo of the run, which holds what it was started with */
export async function sealFresh(
  { server, authorization, target, expiresInSeconds = DEFAULT_SECONDS }: FreshGrant,
  { namespace, workflowId, memo }: { namespace: string; workflowId: string; memo: Record<string, unknown> | undefined },
): Promise<Grant> {
  const specHash = memo?.[SPEC_HASH_MEMO];
  if (typeof specHash !== 'string')
    throw new CountersignError(
      'GRANT_INVALID',
      `Run ${workflowId} does not say what it was started with (memo ${SPEC_HASH_MEMO}), so no grant can be bound to it. Give a vault reference.`,
    );
  const binding = { namespace, workflowId, specHash };
  const jwe = await sealAuthorization({
    authorization,
    serverUrl: target.url,
    binding,
    key: target.key,
    expiresInSeconds,
  });
  return { server, jwe };
}

/**
 * With what a call was made, for whoever asks after it: whose grant, which scopes, and what its server was shown.
 *
 * Pure. Owns what of it is kept, sealed with a task or with where an answer comes (INV-S1). Does not own the sealing.
 * 1. Whoever asks gets a token of this grant and these scopes, and of no other (INV-S2).
 * 2. A server may say afterwards what it was shown in the call, so the tokens are kept to be taken out of that: they alone. What they
 *    were obtained with was never sent to it.
 */
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import { hashOf } from '../../domain/canonical.ts';
import type { MintedToken, TokenRequest } from '../tokens/port.ts';

export interface CallAuthority {
  /** Its hash. */
  readonly grant?: string;
  readonly consented?: readonly string[];
  /** Tokens. Secret (INV-S1). */
  readonly shown: readonly string[];
}

export function authorityOf(
  { grant, consented }: Pick<TokenRequest, 'grant' | 'consented'>,
  shown: readonly string[],
): CallAuthority {
  return {
    ...(grant === undefined ? {} : { grant: hashOf(grant) }),
    ...(consented === undefined ? {} : { consented }),
    shown: [...new Set(shown)],
  };
}

/** What a server sees of a token. */
export function shownOf({ accessToken }: Pick<MintedToken, 'accessToken'>): readonly string[] {
  return accessToken === undefined ? [] : [accessToken];
}

/** What a token is asked for with; undefined where the grant is none of these. */
export function authorizationOf(
  { grant: wanted, consented }: CallAuthority,
  grants: readonly Grant[],
): Pick<TokenRequest, 'grant' | 'consented'> | undefined {
  const grant = grants.find((each) => hashOf(each) === wanted);
  if (wanted !== undefined && grant === undefined) return undefined;
  return { ...(grant === undefined ? {} : { grant }), ...(consented === undefined ? {} : { consented }) };
}

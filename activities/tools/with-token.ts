/**
 * One use of a server with a token that was minted for it, and with one other where the server refuses that (401).
 *
 * 1. A 401 is proof that nothing ran: one other token, once (RFC 6750 §3.1). The refused one is never sent again.
 * 2. A token ends with its use, whatever becomes of that; so does one that is not used (`MintedToken.release`).
 * 3. A fault of a use is thrown, a missing token is a value: a call may have been sent in the first case only (INV-X1).
 */
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { secretsOf } from './server-access.ts';

export interface TokenUse<Used> {
  /** @param known secrets with which this use has asked the server before: it may echo them now */
  readonly use: (token: MintedToken, known: readonly string[]) => Promise<Used>;
  /** Whether the server has refused the token, and nothing else is wrong. */
  readonly isRefused: (used: Used) => boolean;
}

export type WithToken<Used> =
  | { readonly kind: 'none'; readonly error: unknown }
  /** `token`: the one used last; it has ended. `noOther`: why there was no other for a refused one. */
  | { readonly kind: 'used'; readonly used: Used; readonly token: MintedToken; readonly noOther?: unknown };

export async function withToken<Used>(
  broker: TokenBroker,
  request: TokenRequest,
  { use, isRefused }: TokenUse<Used>,
): Promise<WithToken<Used>> {
  const usedWith = async (token: MintedToken, known: readonly string[]): Promise<Used> => {
    try {
      return await use(token, known);
    } finally {
      token.release?.();
    }
  };
  let token: MintedToken;
  try {
    token = await broker.mint(request);
  } catch (error) {
    return { kind: 'none', error };
  }
  const used = await usedWith(token, []);
  const { accessToken: refused } = token;
  if (refused === undefined || !isRefused(used)) return { kind: 'used', used, token };
  let other: MintedToken;
  try {
    other = await broker.mint({ ...request, refused });
  } catch (noOther) {
    return { kind: 'used', used, token, noOther };
  }
  if (other.accessToken !== refused)
    return { kind: 'used', used: await usedWith(other, secretsOf(token)), token: other };
  other.release?.();
  return { kind: 'used', used, token };
}

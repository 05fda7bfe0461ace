/**
 * Uses a server with a token that is minted for this use.
 *
 * 1. A 401 proves that nothing ran, so one other token is tried, once (RFC 6750 §3.1).
 * 2. A token ends with its use, whatever the result, and also if it is not used (`MintedToken.release`).
 * 3. A fault of a use is thrown, and a missing token is a value: only in the first case may a call have been sent
 *    (INV-X1).
 */
import type { ServerConnection } from '../mcp/port.ts';
import type { MintedToken, TokenBroker, TokenRequest } from './port.ts';

/** Lists all secrets that a holder of the connection must not pass on. */
export function secretsOf({
  accessToken,
  secrets,
}: Pick<MintedToken | ServerConnection, 'accessToken' | 'secrets'>): readonly string[] {
  return accessToken === undefined ? secrets : [...secrets, accessToken];
}

export interface TokenUse<Used> {
  /** @param known secrets that this use has shown to the server before: it may echo them now */
  readonly use: (token: MintedToken, known: readonly string[]) => Promise<Used>;
  /** Tells whether the server has refused the token, and nothing else is wrong. */
  readonly isRefused: (used: Used) => boolean;
}

export type WithToken<Used> =
  | { readonly kind: 'none'; readonly error: unknown }
  /** `token` is the one used last; it has ended. `noOther` says why there was no other for a refused one. */
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

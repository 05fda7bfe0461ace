/** Ends a minted token at its issuer when its call has ended, where the configuration says so (RFC 7009). */
import { openExchange } from './exchange.ts';
import type { ConfiguredClient, TokenSource } from './oauth-client.ts';
import type { MintedToken } from './port.ts';

const TIMEOUT_MS = 5_000;

export function revocable(
  { revoke }: { readonly revoke: boolean },
  client: ConfiguredClient,
  source: TokenSource,
  server: string,
  minted: MintedToken,
): MintedToken {
  const { accessToken } = minted;
  if (!revoke || accessToken === undefined) return minted;
  return {
    ...minted,
    release: () => {
      const exchange = openExchange({ ...source, timeoutMs: TIMEOUT_MS, signal: undefined });
      // Not waited for: the outcome of a call must not hang on an authorization server.
      client.revoke(accessToken, server, exchange).catch(() => {
        source.warn('A token was not revoked; it ends by itself.', { server, issuer: client.issuer });
      });
    },
  };
}

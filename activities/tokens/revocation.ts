/**
 * Ends what was minted for a call at its issuer, where the configuration says so (RFC 7009): the token when the call has ended, and
 * at once where it is not used at all.
 *
 * 1. Nothing is waited for: the outcome of a call must not hang on an authorization server. What is not ended ends by itself.
 */
import type { TokenEndpointResponse } from 'oauth4webapi';
import { openExchange } from './exchange.ts';
import type { ConfiguredClient, TokenHint, TokenSource } from './oauth-client.ts';
import type { MintedToken } from './port.ts';

const TIMEOUT_MS = 5_000;

export interface Revocable {
  readonly revoke: boolean;
  readonly client: ConfiguredClient;
  readonly source: TokenSource;
  /** The tool server, for the log. */
  readonly server: string;
  readonly answer: TokenEndpointResponse;
}

/** @param check of the answer; what it throws is thrown, and the token is ended */
export function revocable(
  { revoke, client, source, server, answer }: Revocable,
  check: () => MintedToken,
): MintedToken {
  const end = (token: string, hint: TokenHint): void => {
    const exchange = openExchange({ ...source, timeoutMs: TIMEOUT_MS, signal: undefined });
    client.revoke(token, hint, server, exchange).catch(() => {
      source.warn('A token was not revoked; it ends by itself.', { server, issuer: client.issuer });
    });
  };
  const release = (): void => {
    end(answer.access_token, 'access_token');
    // Nobody asked for it and nobody keeps it: it would live on where the access token does not.
    if (answer.refresh_token !== undefined) end(answer.refresh_token, 'refresh_token');
  };
  if (!revoke) return check();
  try {
    return { ...check(), release };
  } catch (error) {
    release();
    throw error;
  }
}

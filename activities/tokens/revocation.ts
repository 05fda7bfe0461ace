/**
 * Ends a token minted for a call at its issuer, if so configured (RFC 7009). That happens when the call has
 * ended, or at once if the token is not used at all.
 *
 * 1. Nothing waits for the issuer: the outcome of a call must not depend on an authorization server. A token that is
 *    not revoked expires by itself.
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

/** @param check of the answer; its error is thrown again after the token was ended */
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
    // Nobody asked for the refresh token and nobody keeps it: it would outlive the access token.
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

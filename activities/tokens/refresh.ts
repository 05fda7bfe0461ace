/**
 * `refresh`: a token for one call, for the refresh token that the vault holds of the run's initiator (RFC 6749 §6, RFC 8707).
 *
 * 1. Asked for this server and this tool's scopes only; an answer that is wider is refused, not used (INV-S2).
 * 2. The refresh token goes to the issuer that stands beside it in the vault, and only where that is the configured one.
 * 3. A refresh token is used once (`vault/renewal.ts`). What replaced it is written before the token of the answer is looked at.
 * 4. An answer that did not come is no proof that the token was not used: the grant is then lost, not tried again.
 */
import {
  type AuthorizationServer,
  type ClientAuth,
  None,
  allowInsecureRequests,
  customFetch,
  processRefreshTokenResponse,
  refreshTokenGrantRequest,
  type TokenEndpointResponse,
} from 'oauth4webapi';
import { neverConnected } from '../tools/network.ts';
import type { Credentials } from '../../contracts/schemas/config.ts';
import type { Vault } from '../vault/port.ts';
import { renew, type Used } from '../vault/renewal.ts';
import { askedFor, authenticationFor, checkEndpoint, secretsOfClient, type TokenSource } from './client-credentials.ts';
import { type Exchange, openExchange } from './exchange.ts';
import { checkGranted } from './granted.ts';
import { oauthFailure } from './oauth-failure.ts';
import type { MintedToken, TokenRequest } from './port.ts';
import { type TokenStrategy, tokenError } from './strategy.ts';
import { namedRef, ofVault, usableEntry } from './vaulted.ts';

export type RefreshCredentials = Extract<Credentials, { kind: 'refresh' }>;

/** To write what came of a use, and for clocks that differ. */
const WRITING_MS = 30_000;
const LONGEST_LIFE_SECONDS = 315_360_000;

export function refreshStrategy(credentials: RefreshCredentials, source: TokenSource, vault: Vault): TokenStrategy {
  const { issuer, clientId, clientSecret } = credentials;
  const clientSecrets = clientSecret === undefined ? [] : secretsOfClient(clientId, clientSecret);
  const { now, timeoutMs } = source;
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      const ref = namedRef(request);
      if (refused !== undefined) source.servers.forget(issuer);
      // Before anything is asked of anybody: most refusals need no network.
      usable(await ofVault(server, async () => await vault.read(ref)), request);
      const metadata = await metadataFor(request);
      const authentication = clientSecret === undefined ? None() : authenticationFor(metadata, clientSecret, server);
      const asked = askedFor(credentials, request);
      let used: string | undefined;
      const renewed = await ofVault(
        server,
        async () =>
          await renew<TokenEndpointResponse>({
            vault,
            ref,
            check: (held) => usable(held, request),
            use: async (token) => {
              used = token;
              return await exchanged(metadata, authentication, token, { server, asked, now });
            },
            reusable: credentials.refreshTokens === 'reusable',
            leaseMs: timeoutMs + WRITING_MS,
            waitMs: timeoutMs,
            signal,
            now,
          }),
      );
      switch (renewed.kind) {
        case 'renewed': {
          const context = { strategy: 'refresh', server, issuer, refused, now: now() };
          const secrets = [...clientSecrets, ...(used === undefined ? [] : [used])];
          return checkGranted(renewed.value, asked, { ...context, clientSecrets: secrets });
        }
        case 'failed':
          // What failed may be metadata that no longer hold.
          source.servers.forget(issuer);
          throw renewed.error;
        case 'lost': {
          const message = `The grant for ${server} is lost: its refresh token was sent to ${issuer} at ${renewed.since}, and what it was exchanged for was not kept. Put a new one into the vault.`;
          throw tokenError('GRANT_LOST', message, { server, issuer });
        }
        case 'busy': {
          const message = `No token for ${server}: other workers are using the same grant. It may pass: try again.`;
          throw tokenError('TOKEN_UNAVAILABLE', message, { server, issuer });
        }
      }
    },
  };

  function usable(held: Awaited<ReturnType<Vault['read']>>, request: TokenRequest): ReturnType<typeof usableEntry> {
    const usableHeld = usableEntry(held, request, 'refresh-token', now());
    const { secret } = usableHeld.entry;
    if (secret.kind !== 'refresh-token' || new URL(secret.issuer).href !== new URL(issuer).href) {
      const { server } = request;
      const message = `The refresh token of the vault entry for ${server} is of another issuer than the configured one (${issuer}), and was not sent.`;
      throw tokenError('GRANT_INVALID', message, { server, issuer });
    }
    return usableHeld;
  }

  async function metadataFor({ server, signal }: TokenRequest): Promise<AuthorizationServer> {
    const exchange = openExchange({ ...source, signal });
    try {
      const metadata = await source.servers.metadataOf(issuer, exchange);
      checkEndpoint(metadata, { server, issuer, allowInsecure: source.allowInsecure });
      return metadata;
    } catch (error) {
      source.servers.forget(issuer);
      throw oauthFailure(error, { server, issuer, exchange });
    }
  }

  /** Without the caller's signal: see `vault/renewal.ts`. */
  async function exchanged(
    metadata: AuthorizationServer,
    authentication: ClientAuth,
    token: string,
    { server, asked }: { readonly server: string; readonly asked: ReturnType<typeof askedFor>; now: () => number },
  ): Promise<Used<TokenEndpointResponse>> {
    const exchange = openExchange({ ...source, signal: undefined });
    const additionalParameters = new URLSearchParams({ resource: asked.resource });
    if (asked.scopes.length > 0) additionalParameters.set('scope', asked.scopes.join(' '));
    const client = { client_id: clientId };
    try {
      const response = await refreshTokenGrantRequest(metadata, client, authentication, token, {
        additionalParameters,
        [customFetch]: exchange.fetch,
        [allowInsecureRequests]: new URL(issuer).protocol === 'http:',
      });
      const value = await processRefreshTokenResponse(metadata, client, response);
      const { refresh_token: next } = value;
      return { kind: 'exchanged', value, ...(next === undefined ? {} : { token: next }), ...lifeOf(value) };
    } catch (error) {
      return { kind: provenBy(error, exchange), error: oauthFailure(error, { server, issuer, exchange }) };
    }
  }

  /** `refresh_token_expires_in`, as several issuers have it; no standard does. */
  function lifeOf(answer: TokenEndpointResponse): { readonly expiresAt?: string } {
    const seconds = answer['refresh_token_expires_in'];
    if (typeof seconds !== 'number' || !(seconds > 0) || seconds > LONGEST_LIFE_SECONDS) return {};
    return { expiresAt: new Date(now() + seconds * 1_000).toISOString() };
  }
}

/**
 * What a failed request proves of the token that it held. An answer below 500 says that no token was given for it. A 5xx proves
 * nothing, save a 503 with Retry-After (RFC 9110 §15.6.4): proxies answer so when the connection behind them broke.
 */
function provenBy(error: unknown, exchange: Exchange): 'not-used' | 'refused' | 'uncertain' {
  const status = exchange.status();
  if (status === undefined) return neverConnected(error) ? 'not-used' : 'uncertain';
  if (status === 503 && exchange.retryAfterMs() !== undefined) return 'not-used';
  if (status < 300 || status >= 500) return 'uncertain';
  return isInvalidGrant(error) ? 'refused' : 'not-used';
}

/** RFC 6749 §5.2. */
function isInvalidGrant(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'error' in error && error.error === 'invalid_grant';
}

/**
 * The strategy `refresh` obtains a token for one call with the refresh token that the vault holds for the run's
 * initiator (RFC 6749 §6, RFC 8707).
 *
 * 1. The token is asked for this server and this tool's scopes only. An empty scope is never sent, since it means all
 *    of the grant. A wider answer is refused, not used (INV-S2).
 * 2. The refresh token goes only to the issuer stored beside it in the vault, and only if that is the configured one.
 * 3. A refresh token is used once (`activities/vault/renewal.ts`). Its replacement is written before the access token
 *    of the answer is checked.
 * 4. A missing answer does not prove that the refresh token was unused: the grant is then lost, not tried again.
 */
import type { TokenEndpointResponse } from 'oauth4webapi';
import { defined } from '../../contracts/defined.ts';
import type { RefreshedTokens } from '../../contracts/schemas/credentials.ts';
import { egressRefusalIn } from '../egress/guard.ts';
import { neverConnected } from '../kit/network.ts';
import type { HeldEntry, Vault } from '../vault/port.ts';
import { renew, type Used } from '../vault/renewal.ts';
import { type Asked, askedFor, checkGranted, parametersOf } from './asked.ts';
import { type Exchange, oauthFailure, openExchange } from './exchange.ts';
import { ConfiguredClient, type TokenAnswer, type TokenSource } from './oauth-client.ts';
import { type MintedToken, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';
import { namedRef, ofVault, usableEntry } from './vaulted.ts';

/** Time to write the result of a use, with room for clocks that differ. */
const WRITING_MS = 30_000;
const LONGEST_LIFE_SECONDS = 315_360_000;

export function refreshStrategy(credentials: RefreshedTokens, source: TokenSource, vault: Vault): TokenStrategy {
  const { kind: strategy, issuer } = credentials;
  const client = new ConfiguredClient(credentials, source);
  const { now, timeoutMs } = source;
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      const ref = namedRef(request);
      if (refused !== undefined) client.forget();
      // The entry is checked before any request: most refusals need no network.
      const { expiresAt } = usable(await ofVault(server, async () => await vault.read(ref)), request).entry;
      await readMetadata(request);
      const asked = askedFor(credentials, request);
      let used: string | undefined;
      const renewed = await ofVault(
        server,
        async () =>
          await renew<TokenAnswer>({
            vault,
            ref,
            check: (held) => usable(held, request),
            use: async (token) => {
              used = token;
              return await exchanged(token, server, asked);
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
          const { answer, secrets } = renewed.value;
          const known = used === undefined ? secrets : [...secrets, used];
          const granted = checkGranted(answer, asked, {
            strategy,
            server,
            issuer,
            secrets: known,
            refused,
            now: now(),
          });
          return expiresAt === undefined ? granted : { ...granted, grantExpiresAt: expiresAt };
        }
        case 'failed':
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

  function usable(held: HeldEntry | undefined, request: TokenRequest): HeldEntry {
    const found = usableEntry(held, request, 'refresh-token', now());
    const { secret } = found.entry;
    if (secret.kind === 'refresh-token' && new URL(secret.issuer).href === new URL(issuer).href) return found;
    const { server } = request;
    const message = `The refresh token of the vault entry for ${server} is of another issuer than the configured one (${issuer}), and was not sent.`;
    throw tokenError('GRANT_INVALID', message, { server, issuer });
  }

  /** Reads metadata before the refresh token is used: a use that has begun must be finished. */
  async function readMetadata({ server, signal }: TokenRequest): Promise<void> {
    const exchange = openExchange({ ...source, signal });
    try {
      await source.servers.metadataOf(issuer, exchange);
    } catch (error) {
      client.forget();
      throw oauthFailure(error, { server, issuer, exchange });
    }
  }

  /** Runs without the caller's signal; `activities/vault/renewal.ts` says why. */
  async function exchanged(token: string, server: string, asked: Asked): Promise<Used<TokenAnswer>> {
    const { exchange, proof } = watched(openExchange({ ...source, signal: undefined }));
    const parameters = { ...parametersOf(asked), refresh_token: token };
    try {
      const value = await client.token({ server, grantType: 'refresh_token', parameters, exchange });
      const { refresh_token: next } = value.answer;
      return { kind: 'exchanged', value, ...defined({ token: next }), ...lifeOf(value.answer) };
    } catch (error) {
      return { kind: proof(), error };
    }
  }

  /** Reads `refresh_token_expires_in`, which several issuers send; no standard defines it. */
  function lifeOf(answer: TokenEndpointResponse): { readonly expiresAt?: string } {
    const seconds = answer['refresh_token_expires_in'];
    if (typeof seconds !== 'number' || !(seconds > 0) || seconds > LONGEST_LIFE_SECONDS) return {};
    return { expiresAt: new Date(now() + seconds * 1_000).toISOString() };
  }
}

type Proof = 'not-used' | 'refused' | 'uncertain';

/**
 * Watches what a failed request proves of the refresh token that it held. An answer below 500 proves that no token was
 * given for it. A 5xx proves nothing, except a 503 with Retry-After (RFC 9110 §15.6.4): proxies answer 5xx when the
 * connection behind them broke.
 */
function watched(inner: Exchange): { readonly exchange: Exchange; readonly proof: () => Proof } {
  let proof: Proof = 'not-used';
  const exchange: Exchange = {
    ...inner,
    fetch: async (url, request) => {
      // Metadata requests hold no token.
      if (request.method !== 'POST') return await inner.fetch(url, request);
      proof = 'uncertain';
      try {
        const response = await inner.fetch(url, request);
        proof = await provenBy(response.clone(), inner.retryAfterMs());
        return response;
      } catch (error) {
        // Nothing was sent to an address that may not be contacted.
        if (neverConnected(error) || egressRefusalIn(error) !== undefined) proof = 'not-used';
        throw error;
      }
    },
  };
  return { exchange, proof: () => proof };
}

async function provenBy(response: Response, retryAfterMs: number | undefined): Promise<Proof> {
  const { status } = response;
  if (status === 503 && retryAfterMs !== undefined) return 'not-used';
  if (status < 300 || status >= 500) return 'uncertain';
  const body: unknown = await response.json().catch(() => undefined);
  // RFC 6749 §5.2.
  const isOver = typeof body === 'object' && body !== null && 'error' in body && body.error === 'invalid_grant';
  return isOver ? 'refused' : 'not-used';
}

/**
 * The strategies that use the vault entry which a run's grant names: `given` with a reference takes its token as it is,
 * and `refresh` obtains a token for one call with its refresh token (RFC 6749 §6, RFC 8707).
 *
 * 1. The owner of an entry is stored beside its secret. A run that names an entry of somebody else does not even learn
 *    that it exists.
 * 2. A token is asked for this server and this tool's scopes only; an empty scope, which means all of the grant, is
 *    never sent. A wider answer is refused (INV-S2).
 * 3. The refresh token goes only to the issuer stored beside it in the vault, and only if that is the configured one.
 * 4. A refresh token is used once (`activities/vault/renewal.ts`). Its replacement is written before the access token
 *    of the answer is checked, and also if the rest of the answer is of no use.
 * 5. A missing answer does not prove that the refresh token was unused: the grant is then lost, not tried again.
 */
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { RefreshedTokens } from '../../contracts/schemas/credentials.ts';
import type { VaultEntry, VaultSecret } from '../../contracts/schemas/stores.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { egressRefusalIn } from '../egress/fetch.ts';
import { neverConnected } from '../kit/network.ts';
import type { HeldEntry, Vault } from '../vault/port.ts';
import { renew, type Used } from '../vault/renewal.ts';
import { askedFor, checkGranted, parametersOf, sameIssuer, unverifiedEvidence } from './asked.ts';
import { type Exchange, openExchange } from './exchange.ts';
import { ConfiguredClient, type TokenAnswer, type TokenAsk, type TokenSource } from './oauth-client.ts';
import { type MintedToken, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';

/** @throws what the token port allows, if this request may not use the entry */
function usableEntry(
  held: HeldEntry | undefined,
  request: TokenRequest,
  kind: VaultSecret['kind'],
  now: number,
): HeldEntry {
  const { server } = request;
  if (held === undefined || !isBoundTo(held.entry, request)) {
    const message = `The grant for ${server} names a vault entry that is not there, or not for this run. Name one that is bound to its tenant, its initiator and this server (countersign vault list).`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  const { secret, expiresAt, refusedAt } = held.entry;
  if (secret.kind !== kind) {
    const wanted = kind === 'token' ? 'given' : 'refresh';
    const message = `The grant for ${server} names a vault entry that holds a ${secret.kind}, and servers with credentials ${wanted} take a ${kind}. Put another one into the vault.`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  if (refusedAt !== undefined) {
    const message = `No token for ${server}: its issuer refused the refresh token at ${refusedAt}. Put a new one into the vault.`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  if (expiresAt !== undefined && now >= Date.parse(expiresAt)) {
    const message = `The grant for ${server} expired at ${expiresAt}. Put a new one into the vault.`;
    throw tokenError('GRANT_EXPIRED', message, { server, expiredAt: expiresAt });
  }
  return held;
}

function isBoundTo({ bound }: VaultEntry, { initiator, serverUrl }: TokenRequest): boolean {
  return (
    initiator !== undefined &&
    bound.tenant === initiator.tenant &&
    bound.initiators.includes(initiator.id) &&
    canonicalServerUrl(bound.server) === canonicalServerUrl(serverUrl)
  );
}

function namedRef({ grant, server }: TokenRequest): string {
  if (grant === undefined) {
    const message = `${server} needs an authorization and the run was started without one. Start the run with a grant for ${server} that names a vault entry (ref).`;
    throw tokenError('GRANT_MISSING', message, { server });
  }
  if (!('ref' in grant) || grant.server !== server) {
    const message = `${server} takes the name of a vault entry (ref), and the run gives something else. Give this run the name of one (countersign authorize --ref), and start the next with grants: [{server: ${server}, ref: …}].`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  return grant.ref;
}

async function ofVault<Value>(server: string, use: () => Promise<Value>): Promise<Value> {
  try {
    return await use();
  } catch (error) {
    const coded = codedFailureIn(error);
    if (coded === undefined || !/^VAULT_|^CONFIG_INVALID$/.test(coded.code)) throw error;
    const code = coded.code === 'VAULT_UNAVAILABLE' ? 'TOKEN_UNAVAILABLE' : 'TOKEN_REFUSED';
    throw tokenError(code, `No token for ${server}: ${coded.message}`, { server });
  }
}

export function vaultedTokenStrategy(vault: Vault, now: () => number): TokenStrategy {
  return {
    async mint(request): Promise<MintedToken> {
      const { server } = request;
      const ref = namedRef(request);
      const held = await ofVault(server, async () => await vault.read(ref));
      const { entry } = usableEntry(held, request, 'token', now());
      const { token } = entry.secret;
      if (token === request.refused) {
        const message = `${server} refused the token of the vault entry that the run names. Put one into the vault that is still good.`;
        throw tokenError('TOKEN_REFUSED', message, { server });
      }
      const evidence = unverifiedEvidence('vault', token, [token]);
      return { accessToken: token, evidence, secrets: [token], ...defined({ grantExpiresAt: entry.expiresAt }) };
    },
  };
}

/** Time to write the result of a use, with room for clocks that differ. */
const WRITING_MS = 30_000;
const LONGEST_LIFE_SECONDS = 315_360_000;

export function refreshStrategy(credentials: RefreshedTokens, source: TokenSource, vault: Vault): TokenStrategy {
  const { issuer } = credentials;
  const client = new ConfiguredClient(credentials, source);
  const { now, timeoutMs } = source;
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      const ref = namedRef(request);
      if (refused !== undefined) client.forget();
      let end: string | undefined;
      const check = (held: HeldEntry | undefined): HeldEntry => {
        const found = ofIssuer(issuer, held, request, now());
        end = found.entry.expiresAt;
        return found;
      };
      check(await ofVault(server, async () => await vault.read(ref)));
      // Read before the refresh token is used: a use that has begun must be finished.
      await client.prepare(server, openExchange({ ...source, signal }));
      const asked = askedFor(credentials, request);
      const { senderConstrained } = credentials;
      const ask = { request, grantType: 'refresh_token', parameters: parametersOf(asked), senderConstrained };
      const use = async (token: string) => await exchanged(token, ask, client, source);
      const reusable = credentials.refreshTokens === 'reusable';
      const lease = { leaseMs: timeoutMs + WRITING_MS, waitMs: timeoutMs, signal, now };
      const renewed = await ofVault(server, async () => await renew({ vault, ref, check, use, reusable, ...lease }));
      switch (renewed.kind) {
        case 'renewed': {
          if ('error' in renewed.value) throw renewed.value.error;
          const { answer, ...shown } = renewed.value;
          const grantExpiresAt = endOf(answer, now()) ?? end;
          const context = { credentials, request, ...shown, now: now() };
          return { ...checkGranted(answer, asked, context), ...defined({ grantExpiresAt }) };
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
}

function ofIssuer(issuer: string, held: HeldEntry | undefined, request: TokenRequest, now: number): HeldEntry {
  const found = usableEntry(held, request, 'refresh-token', now);
  const { secret } = found.entry;
  if (secret.kind === 'refresh-token' && sameIssuer(secret.issuer, issuer)) return found;
  const { server } = request;
  const message = `The refresh token of the vault entry for ${server} is of another issuer than the configured one (${issuer}), and was not sent.`;
  throw tokenError('GRANT_INVALID', message, { server, issuer });
}

/** Runs without the caller's signal; `activities/vault/renewal.ts` says why. */
async function exchanged(
  used: string,
  ask: Omit<TokenAsk, 'exchange'>,
  client: ConfiguredClient,
  source: TokenSource,
): Promise<Used<TokenAnswer | { readonly error: unknown }>> {
  const { exchange, proof } = watched(openExchange({ ...source, signal: undefined }));
  const parameters = { ...ask.parameters, refresh_token: used };
  try {
    const { answer, secrets, key } = await client.token({ ...ask, parameters, exchange });
    const value = { answer, secrets: [...secrets, used], key };
    return { kind: 'exchanged', value, ...replacing(answer, source.now()) };
  } catch (error) {
    const proven = proof();
    if (typeof proven === 'string') return { kind: proven, error };
    return { kind: 'exchanged', value: { error }, ...replacing(proven, source.now()) };
  }
}

function replacing(answer: Fields, now: number): { readonly token?: string; readonly expiresAt?: string } {
  const { refresh_token: token } = answer;
  return defined({ token: typeof token === 'string' ? token : undefined, expiresAt: endOf(answer, now) });
}

/** Reads `refresh_token_expires_in`, which several issuers send; no standard defines it. */
function endOf(answer: Fields, now: number): string | undefined {
  const seconds = answer['refresh_token_expires_in'];
  if (typeof seconds !== 'number' || !(seconds > 0) || seconds > LONGEST_LIFE_SECONDS) return undefined;
  return new Date(now + seconds * 1_000).toISOString();
}

type Proof = 'not-used' | 'refused' | 'uncertain' | Fields;

/**
 * Watches what a failed request proves of the refresh token that it held. An answer below 500 proves that no token was
 * given for it. A 5xx, which may be a proxy's, proves nothing, except a 503 with Retry-After (RFC 9110 §15.6.4). A 200
 * with tokens tells what replaced it, whatever is wrong with the rest.
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
  if (status >= 500) return 'uncertain';
  const body: unknown = await response.json().catch(() => undefined);
  if (status < 300) return status === 200 && isFields(body) && holdsTokens(body) ? body : 'uncertain';
  // RFC 6749 §5.2.
  return isFields(body) && body['error'] === 'invalid_grant' ? 'refused' : 'not-used';
}

function holdsTokens({ access_token: access, refresh_token: refresh }: Fields): boolean {
  const isReplaced = refresh === undefined || (typeof refresh === 'string' && refresh !== '');
  return typeof access === 'string' && access !== '' && isReplaced;
}

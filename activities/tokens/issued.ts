/**
 * The strategy `issued` signs a token of our own for one call, for servers that trust this deployment as an issuer (RFC
 * 9068), and publishes the keys by which they verify it.
 *
 * 1. The token names one call with the hash of its arguments, and who countersigned it.
 * 2. The token is for one server and one tool's scopes, and lasts at most 120 s (INV-S2).
 * 3. The first key signs and all keys are published, so that a new key is known everywhere before it signs. A published
 *    key has no private part.
 */
import { createPublicKey, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type CryptoKey, type JWK, SignJWT } from 'jose';
import { defined } from '../../contracts/defined.ts';
import { PUBLISHED_PATHS } from '../../contracts/names.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { IssuedClaims, IssuedTokens, Issuer, SigningKey } from '../../contracts/schemas/credentials.ts';
import type { Initiator } from '../../contracts/schemas/run-spec.ts';
import { askedFor, expiry, parametersOf } from './asked.ts';
import type { MintedToken, TokenStrategy } from './port.ts';
import type { ServerWords } from './proof-key.ts';

interface IssuedSource {
  readonly issuer: Issuer;
  readonly sign: ReturnType<typeof tokenSigner>;
  readonly trust: Config['trust']['mode'];
  readonly words: ServerWords;
}

export function issuedStrategy(credentials: IssuedTokens, { issuer, sign, trust, words }: IssuedSource): TokenStrategy {
  return {
    async mint(request): Promise<MintedToken> {
      const { run, initiator, call } = request;
      const place = { namespace: run.namespace, run: run.workflowId, trust };
      const asked = askedFor(credentials, request);
      const { resource, scope } = parametersOf(asked);
      const key = await words.keyFor(credentials.senderConstrained, request);
      const { token, jti, expiresAtMs } = await sign({
        sub: initiator === undefined ? issuer.clientId : subjectOf(initiator, issuer.clientId),
        aud: resource,
        ...defined({ scope }),
        ...(key === undefined ? {} : { cnf: { jkt: key.thumbprint } }),
        ...(initiator === undefined ? {} : { act: { sub: issuer.clientId } }),
        countersign: { ...place, ...defined({ tenant: initiator?.tenant, call }) },
      });
      const origin = { strategy: credentials.kind, issuer: issuer.url, jti };
      const evidence = { ...origin, scopes: [...asked.scopes], ...expiry(expiresAtMs) };
      return { accessToken: token, ...defined({ binding: key }), evidence, secrets: [token] };
    },
  };
}

/** How the subject of a person begins whose tenant is not `default`. */
export const TENANT_PREFIX = /^[\w.!~*'()%-]+\//;

/**
 * A subject is unique within the issuer (RFC 7519 §4.1.2): the id itself for people of the tenant `default`, and
 * `TENANT/ID` for others, and for ids that could be read as that or as the service itself.
 */
function subjectOf({ id, tenant }: Pick<Initiator, 'id' | 'tenant'>, clientId: string): string {
  const isPlain = tenant === 'default' && id !== clientId && !TENANT_PREFIX.test(id);
  return isPlain ? id : `${encodeURIComponent(tenant)}/${id}`;
}

export type UnsignedClaims = Omit<IssuedClaims, 'iss' | 'exp' | 'iat' | 'jti' | 'client_id'>;

export function tokenSigner(issuer: Issuer, keyOf: (key: SigningKey) => CryptoKey, now: () => number) {
  const { url, keys, clientId, lifetimeSeconds } = issuer;
  const [signing] = keys;
  // Sound: the schema requires at least one key.
  if (signing === undefined) throw new Error('an issuer without a key');
  return async (claims: UnsignedClaims) => {
    const iat = Math.floor(now() / 1_000);
    const exp = iat + lifetimeSeconds;
    const jti: string = randomUUID();
    const token = await new SignJWT({ ...claims, iss: url, client_id: clientId, iat, exp, jti })
      .setProtectedHeader({ alg: signing.alg, kid: signing.kid, typ: 'at+jwt' })
      .sign(keyOf(signing));
    return { token, jti, expiresAtMs: exp * 1_000 };
  };
}

/** Returns the JWK Set (RFC 7517) of keys that were loaded before and so can be read. */
export async function publishedKeys(
  { keys }: Issuer,
  baseDirectory: string,
): Promise<{ readonly keys: readonly JWK[] }> {
  const published = keys.map(async ({ kid, alg, privateKeyFile }) => {
    const pem = await readFile(resolve(baseDirectory, privateKeyFile), 'utf8');
    return { ...createPublicKey(pem).export({ format: 'jwk' }), kid, alg, use: 'sig' };
  });
  return { keys: await Promise.all(published) };
}

/** RFC 8414 §2: metadata of this issuer. No endpoint is listed: tokens go to nobody but this service. */
export function issuerMetadata({ url }: Issuer): Readonly<Record<string, unknown>> {
  return {
    issuer: url,
    jwks_uri: `${url.replace(/\/$/, '')}${PUBLISHED_PATHS.keys}`,
    response_types_supported: [],
    grant_types_supported: [],
  };
}

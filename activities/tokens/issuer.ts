/**
 * This deployment as an issuer signs access tokens (RFC 9068), and publishes the keys by which servers verify them.
 *
 * 1. The first key signs and all keys are published, so that a new key is known everywhere before it signs.
 * 2. A published key has no private part.
 */
import { createPublicKey, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type CryptoKey, type JWK, SignJWT } from 'jose';
import { PUBLISHED_PATHS } from '../../contracts/names.ts';
import type { Issuer, SigningKey } from '../../contracts/schemas/credentials.ts';
import type { IssuedClaims } from '../../contracts/schemas/issued-claims.ts';

export type UnsignedClaims = Omit<IssuedClaims, 'iss' | 'exp' | 'iat' | 'jti' | 'client_id'>;

export interface SignedToken {
  readonly token: string;
  readonly jti: string;
  /** Milliseconds since the epoch. */
  readonly expiresAtMs: number;
}

export type SignToken = (claims: UnsignedClaims) => Promise<SignedToken>;

/** @param now milliseconds since the epoch */
export function tokenSigner(issuer: Issuer, keyOf: (key: SigningKey) => CryptoKey, now: () => number): SignToken {
  const { url, keys, clientId, lifetimeSeconds } = issuer;
  const [signing] = keys;
  // Sound: the schema requires at least one key.
  if (signing === undefined) throw new Error('an issuer without a key');
  return async (claims) => {
    const iat = Math.floor(now() / 1_000);
    const exp = iat + lifetimeSeconds;
    const jti = randomUUID();
    const token = await new SignJWT({ ...claims, iss: url, client_id: clientId, iat, exp, jti })
      .setProtectedHeader({ alg: signing.alg, kid: signing.kid, typ: 'at+jwt' })
      .sign(keyOf(signing));
    return { token, jti, expiresAtMs: exp * 1_000 };
  };
}

/**
 * Returns the JWK Set (RFC 7517) of keys that were loaded before and so can be read.
 * @param baseDirectory of the configuration file
 */
export async function publishedKeys(
  { keys }: Issuer,
  baseDirectory: string,
): Promise<{ readonly keys: readonly JWK[] }> {
  return {
    keys: await Promise.all(
      keys.map(async ({ kid, alg, privateKeyFile }) => {
        const pem = await readFile(resolve(baseDirectory, privateKeyFile), 'utf8');
        const jwk = createPublicKey(pem).export({ format: 'jwk' });
        return { ...jwk, kid, alg, use: 'sig' };
      }),
    ),
  };
}

/**
 * RFC 8414 §2: metadata of this issuer with the place of its keys. No endpoint is listed: tokens go to nobody but this
 * service.
 */
export function issuerMetadata({ url }: Issuer): Readonly<Record<string, unknown>> {
  return {
    issuer: url,
    jwks_uri: `${url.replace(/\/$/, '')}${PUBLISHED_PATHS.keys}`,
    response_types_supported: [],
    grant_types_supported: [],
  };
}

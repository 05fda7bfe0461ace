/** Makes the keys that workers use: the file that a configuration names, and the public half as others have it. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CryptoKey, exportJWK, exportPKCS8, generateKeyPair, type JWK } from 'jose';
import type { SigningKeys } from '../../../activities/tokens/sealed.ts';
import { SEALING } from '../../../contracts/crypto.ts';
import type { SigningKey } from '../../../contracts/schemas/credentials.ts';

/** A zone's key, to which grants are sealed. */
export interface ZoneKey {
  readonly kid: string;
  readonly publicJwk: JWK;
  readonly privateKey: CryptoKey;
  /** PKCS #8, as a key file holds it. */
  readonly pem: string;
}

export async function zoneKey(kid = 'zone-1'): Promise<ZoneKey> {
  const { publicKey, privateKey } = await generateKeyPair(SEALING.alg, { crv: SEALING.curve, extractable: true });
  return { kid, publicJwk: { ...(await exportJWK(publicKey)), kid }, privateKey, pem: await exportPKCS8(privateKey) };
}

/** A key whose private half lies in a folder, as a worker's configuration names it. */
export interface KeptZoneKey extends ZoneKey {
  readonly grants: { readonly keys: [{ readonly kid: string; readonly privateKeyFile: string }] };
}

export async function keepZoneKey(directory: string, given?: ZoneKey): Promise<KeptZoneKey> {
  const zone = given ?? (await zoneKey());
  const privateKeyFile = 'zone.pem';
  await writeFile(join(directory, privateKeyFile), zone.pem);
  return { ...zone, grants: { keys: [{ kid: zone.kid, privateKeyFile }] } };
}

export function privateKeysOf(...keys: readonly ZoneKey[]): ReadonlyMap<string, CryptoKey> {
  return new Map(keys.map(({ kid, privateKey }) => [kid, privateKey]));
}

/** A key with which a worker signs at authorization servers. */
export interface TestSigningKey {
  /** The key's entry in a configuration. */
  readonly config: SigningKey;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
  /** PKCS #8. */
  readonly pem: string;
}

export async function signingKey(kid: string, alg: SigningKey['alg'] = 'ES256'): Promise<TestSigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return {
    config: { kid, alg, privateKeyFile: `${kid}.pem` },
    privateKey,
    publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
    pem: await exportPKCS8(privateKey),
  };
}

/** Returns keys in the form of `loadSigningKeys`. */
export function signingKeysOf(...keys: readonly TestSigningKey[]): SigningKeys {
  return ({ kid }) => {
    const found = keys.find(({ config }) => config.kid === kid);
    if (found === undefined) throw new Error(`there is no key ${kid}`);
    return found.privateKey;
  };
}

/** A key with which a worker signs heads of ledgers. */
export interface HeadKey {
  readonly kid: string;
  readonly pem: string;
  readonly publicJwk: JWK;
  readonly publicPem: string;
}

export function headKey(kid = 'worker-1'): HeadKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  const publicPem = publicKey.export({ format: 'pem', type: 'spki' }).toString();
  // Sound: Node writes a JWK of this form for an Ed25519 key.
  return { kid, pem, publicPem, publicJwk: { ...(publicKey.export({ format: 'jwk' }) as JWK), kid } };
}

/**
 * Writes the key beside a configuration.
 * @returns the configuration's `ledger.sign`
 */
export async function writeHeadKey(directory: string, { kid, pem }: HeadKey) {
  await writeFile(join(directory, `${kid}.pem`), pem);
  return { kid, privateKeyFile: `${kid}.pem` };
}

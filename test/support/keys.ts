/** Makes a zone's sealing keys: the public half as a client has it, the private half as a worker has it. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CryptoKey, type JWK, exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { SEALING } from '../../contracts/crypto.ts';

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

export async function keepZoneKey(directory: string): Promise<KeptZoneKey> {
  const zone = await zoneKey();
  const privateKeyFile = 'zone.pem';
  await writeFile(join(directory, privateKeyFile), zone.pem);
  return { ...zone, grants: { keys: [{ kid: zone.kid, privateKeyFile }] } };
}

export function privateKeysOf(...keys: readonly ZoneKey[]): ReadonlyMap<string, CryptoKey> {
  return new Map(keys.map(({ kid, privateKey }) => [kid, privateKey]));
}

/**
 * Loads the private keys of a zone. One kind opens grants, by key id; with the other this worker signs, as a
 * client of authorization servers and as an issuer.
 *
 * 1. Old sealing keys stay while runs sealed to them may still wait.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CompactSign, type CryptoKey, importPKCS8 } from 'jose';
import { SEALING } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config, SealingKey } from '../../contracts/schemas/config.ts';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';
import { clientsOf } from './clients.ts';

export type PrivateKeys = ReadonlyMap<string, CryptoKey>;

/** @param baseDirectory of the configuration file; key files are relative to it */
export async function loadPrivateKeys(keys: readonly SealingKey[], baseDirectory: string): Promise<PrivateKeys> {
  const loaded = new Map<string, CryptoKey>();
  for (const [index, { kid, privateKeyFile }] of keys.entries()) {
    const path = `grants.keys[${index}]`;
    if (loaded.has(kid)) throw invalid(`${path}.kid`, `repeats the key id ${kid}; each key needs its own`);
    loaded.set(
      kid,
      await loadPrivateKey(resolve(baseDirectory, privateKeyFile), privateKeyFile, `${path}.privateKeyFile`),
    );
  }
  return loaded;
}

async function loadPrivateKey(file: string, shownFile: string, path: string): Promise<CryptoKey> {
  const pem = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw invalid(path, `names the file ${shownFile}, which cannot be read (${error.code ?? 'error'})`);
  });
  const key = await importPKCS8(pem.trim(), SEALING.alg).catch(() => {
    // The cause is left out: it may quote the file.
    throw invalid(
      path,
      `names the file ${shownFile}, which is no PKCS #8 private key in PEM. Convert it with: openssl pkcs8 -topk8 -nocrypt`,
    );
  });
  // Sound: an imported elliptic-curve key has the algorithm parameters of one (Web Cryptography API, EcKeyAlgorithm).
  const { namedCurve } = key.algorithm as { namedCurve?: string };
  if (namedCurve === SEALING.curve) return key;
  throw invalid(path, `names the file ${shownFile}, whose key is not of curve ${SEALING.curve}`);
}

function invalid(path: string, reason: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The configuration is not valid: ${path} ${reason}.`, { path });
}

/** Returns the key that `importPKCS8` made of a configured key file. */
export type SigningKeys = (key: SigningKey) => CryptoKey;

export interface PlacedKey {
  /** Path in the configuration, for errors. */
  readonly path: string;
  readonly key: SigningKey;
}

/** Returns the signing keys of all clients and of the issuer. */
export function signingKeysOf(config: Pick<Config, 'servers' | 'credentials' | 'issuer'>): readonly PlacedKey[] {
  return [
    ...clientsOf(config).flatMap(({ path, client }) =>
      client.clientKey === undefined ? [] : [{ path: `${path}.clientKey`, key: client.clientKey }],
    ),
    ...(config.issuer?.keys ?? []).map((key, index) => ({ path: `issuer.keys[${index}]`, key })),
  ];
}

/** @param baseDirectory of the configuration file; key files are relative to it */
export async function loadSigningKeys(keys: readonly PlacedKey[], baseDirectory: string): Promise<SigningKeys> {
  const loaded = new Map<string, CryptoKey>();
  for (const { path, key } of keys) {
    if (!loaded.has(nameOf(key))) loaded.set(nameOf(key), await load(key, baseDirectory, `${path}.privateKeyFile`));
  }
  return (key) => {
    const found = loaded.get(nameOf(key));
    if (found === undefined) throw new Error(`the key ${key.kid} was not loaded`);
    return found;
  };
}

function nameOf({ privateKeyFile, alg }: SigningKey): string {
  return `${alg} ${privateKeyFile}`;
}

async function load({ privateKeyFile, alg }: SigningKey, baseDirectory: string, path: string): Promise<CryptoKey> {
  const pem = await readFile(resolve(baseDirectory, privateKeyFile), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw invalid(path, `names the file ${privateKeyFile}, which cannot be read (${error.code ?? 'error'})`);
  });
  // The key is not extractable: no code of this process can write it anywhere.
  const key = await importPKCS8(pem.trim(), alg).catch(() => {
    // The cause is left out: it may quote the file.
    throw invalid(path, `names the file ${privateKeyFile}, which is no private key for ${alg} (PKCS #8 in PEM)`);
  });
  // A key that is too short fails only when it signs (RFC 7518 §3.3). So it signs here, before the first approved call.
  await new CompactSign(new Uint8Array())
    .setProtectedHeader({ alg })
    .sign(key)
    .catch(() => {
      throw invalid(path, `names the file ${privateKeyFile}, which cannot sign with ${alg}: RSA needs 2048 bits`);
    });
  return key;
}

/** Private keys with which this worker signs, as a client of authorization servers and as an issuer. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CompactSign, type CryptoKey, importPKCS8 } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';
import { clientsOf } from './clients.ts';

/** What `importPKCS8` made of the file of a configured key. */
export type SigningKeys = (key: SigningKey) => CryptoKey;

export interface PlacedKey {
  /** Of the configuration, for errors. */
  readonly path: string;
  readonly key: SigningKey;
}

/** Of all clients and of the issuer. */
export function signingKeysOf(config: Pick<Config, 'servers' | 'credentials' | 'issuer'>): readonly PlacedKey[] {
  return [
    ...clientsOf(config).flatMap(({ path, client }) =>
      client.clientKey === undefined ? [] : [{ path: `${path}.clientKey`, key: client.clientKey }],
    ),
    ...(config.issuer?.keys ?? []).map((key, index) => ({ path: `issuer.keys[${index}]`, key })),
  ];
}

/** @param baseDirectory of the configuration file; key files are relative to it. */
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
  // Not extractable: no code of this process can write it anywhere.
  const key = await importPKCS8(pem.trim(), alg).catch(() => {
    // The cause is left out: it may quote the file.
    throw invalid(path, `names the file ${privateKeyFile}, which is no private key for ${alg} (PKCS #8 in PEM)`);
  });
  // A key that is too short is known only once it signs (RFC 7518 §3.3): not with the first call that is approved.
  await new CompactSign(new Uint8Array())
    .setProtectedHeader({ alg })
    .sign(key)
    .catch(() => {
      throw invalid(path, `names the file ${privateKeyFile}, which cannot sign with ${alg}: RSA needs 2048 bits`);
    });
  return key;
}

function invalid(path: string, reason: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The configuration is not valid: ${path} ${reason}.`, { path });
}

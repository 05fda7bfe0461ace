/** Private keys of a zone, by key id. Old ones stay while runs sealed to them may still wait. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type CryptoKey, importPKCS8 } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import type { SealingKey } from '../../contracts/schemas/config.ts';
import { SEALING } from '../../contracts/sealing.ts';

export type PrivateKeys = ReadonlyMap<string, CryptoKey>;

/** @param baseDirectory of the configuration file; key files are relative to it. */
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

/** Makes a worker's key for ledger heads, as an operator does. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JWK } from 'jose';

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

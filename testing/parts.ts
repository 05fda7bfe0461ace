/** Parts of a world for tests: how they end, where their artifacts are read, and the key to which tokens are sealed. */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { JWK } from 'jose';
import { readArtifactsFrom, readArtifactsFromBucket } from '../client/index.ts';
import { SEALING } from '../contracts/crypto.ts';
import type { Config } from '../contracts/schemas/config.ts';

export interface Part {
  stop(): Promise<unknown>;
}

/**
 * Stops the part that was started last first, and every other one even where one fails.
 * @throws what the first of them has failed with
 */
export async function stopAll(started: Part[]): Promise<void> {
  const failures: { readonly reason: unknown }[] = [];
  for (const part of started.splice(0).toReversed())
    await part.stop().catch((reason: unknown) => void failures.push({ reason }));
  const [first] = failures;
  if (first !== undefined) throw first.reason;
}

/** Reads what workers of this configuration store. @param directory of the configuration, as workers have it */
export function readerOf(
  { artifacts, egress }: Pick<Config, 'artifacts' | 'egress'>,
  directory: string,
): ReturnType<typeof readArtifactsFrom> {
  const { s3, directory: folder } = artifacts;
  return s3 === undefined ? readArtifactsFrom(resolve(directory, folder)) : readArtifactsFromBucket(s3, egress);
}

/**
 * Makes a key to which tokens are sealed. With it, servers may also ask people.
 * @param directory of the configuration
 * @returns the half to which clients seal tokens, and what names the half that workers have
 */
export async function keepZoneKey(directory: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: SEALING.curve });
  const [kid, privateKeyFile] = ['world', 'world.pem'];
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  await writeFile(join(directory, privateKeyFile), pem, { mode: 0o600 });
  const publicJwk: JWK = { ...publicKey.export({ format: 'jwk' }), kid };
  return { publicJwk, grants: { keys: [{ kid, privateKeyFile }] } };
}

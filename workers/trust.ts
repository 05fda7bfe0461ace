/** Sets up trust mode `signed` for a process: its keys are read before anything is served. */
import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import type { ArtifactStore } from '../activities/artifacts/port.ts';
import { createExecutionReader } from '../activities/trust/executions.ts';
import { createTrustFile, createTrustUrl, type TrustStore } from '../activities/trust/key-sources.ts';
import { createTrustedKeys, readTrusted } from '../activities/trust/keys.ts';
import type { StartProofParts } from '../activities/trust/start-proof.ts';
import { isTrustUrl, type TrustedJwk } from '../contracts/schemas/trust.ts';
import type { LoadedConfig } from './config/load.ts';
import { openEgress } from './composition.ts';

/** Returns undefined in trust mode `temporal`. @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID` */
export async function openTrust(
  { config, baseDirectory }: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
): Promise<StartProofParts | undefined> {
  const { trust, taskQueue } = config;
  if (trust.mode === 'temporal') return undefined;
  const keys = createTrustedKeys(trust, storeOf(trust.jwks, { config, baseDirectory }));
  await keys.setFor('default', 'new');
  return { keys, artifacts, readExecution: createExecutionReader(client), taskQueue };
}

/**
 * Returns the keys themselves, for callers that check signatures.
 * @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID`
 */
export async function readTrustedKeys(jwks: string, place: TrustPlace): Promise<readonly TrustedJwk[]> {
  return await readTrusted(storeOf(jwks, place));
}

type TrustPlace = Pick<LoadedConfig, 'config' | 'baseDirectory'>;

function storeOf(jwks: string, { config, baseDirectory }: TrustPlace): TrustStore {
  if (isTrustUrl(jwks)) return createTrustUrl(jwks, openEgress(config));
  return createTrustFile(resolve(baseDirectory, jwks), jwks);
}

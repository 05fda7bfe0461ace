/** Trust mode `signed` of a process: its keys are read before anything is served. */
import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import type { ArtifactStore } from '../activities/artifacts/port.ts';
import type { Egress } from '../activities/egress/fetch.ts';
import { createExecutionReader } from '../activities/trust/executions.ts';
import { createTrustFile } from '../activities/trust/file.ts';
import { createTrustedKeys } from '../activities/trust/keys.ts';
import type { TrustStore } from '../activities/trust/port.ts';
import type { StartProofParts } from '../activities/trust/start-proof.ts';
import { createTrustUrl } from '../activities/trust/url.ts';
import { isTrustUrl } from '../contracts/schemas/trust.ts';
import type { LoadedConfig } from './config.ts';
import { openEgress } from './egress.ts';

/** Undefined in trust mode `temporal`. @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID` */
export async function openTrust(
  { config, baseDirectory }: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
): Promise<StartProofParts | undefined> {
  const { trust, taskQueue } = config;
  if (trust.mode === 'temporal') return undefined;
  const keys = createTrustedKeys(trust, storeOf(trust.jwks, baseDirectory, openEgress(config)));
  await keys.setFor('default', 'new');
  return { keys, artifacts, readExecution: createExecutionReader(client), taskQueue };
}

function storeOf(jwks: string, baseDirectory: string, egress: Egress): TrustStore {
  return isTrustUrl(jwks) ? createTrustUrl(jwks, egress) : createTrustFile(resolve(baseDirectory, jwks), jwks);
}

/** Opens the vault that a configuration names, for the workers that call servers and for the command line. */
import { resolve } from 'node:path';
import { setUpRoot } from '../activities/artifacts/root.ts';
import { createVaultDirectory, VAULT_ROOT } from '../activities/vault/directory.ts';
import { createVaultEnvironment } from '../activities/vault/environment.ts';
import type { Vault } from '../activities/vault/port.ts';
import { isBeside } from './config/inside-folder.ts';
import type { Environment, LoadedConfig } from './config/load.ts';

/**
 * Makes a directory beside the configuration when it is first needed. Anywhere else a volume may be meant, and is
 * waited for.
 *
 * @returns undefined if none is configured
 * @throws CountersignError `SETUP_INCOMPLETE`
 */
export function openVault(
  { config, baseDirectory }: Pick<LoadedConfig, 'config' | 'baseDirectory'>,
  environment: Environment,
): Vault | undefined {
  const { vault } = config;
  if (vault === undefined) return undefined;
  if (vault.kind === 'environment') return createVaultEnvironment(vault.variables, environment);
  const root = resolve(baseDirectory, vault.directory);
  setUpRoot(root, isBeside(baseDirectory, root), VAULT_ROOT);
  return createVaultDirectory(root, vault.keys);
}

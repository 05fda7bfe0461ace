/**
 * What commands of the vault need of `countersign.yaml`: the vault, and where servers are.
 *
 * 1. Nothing else of the file is looked at: whoever keeps grants needs no other secret of the workers (INV-S1).
 */
import { CountersignError } from '../contracts/errors.ts';
import { Config } from '../contracts/schemas/config.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { substitute } from '../workers/config-environment.ts';
import { readConfigFile } from '../workers/config-file.ts';
import { openVault } from '../workers/vault.ts';
import type { GlobalOptions } from './options.ts';
import type { Terminal } from './terminal.ts';

type OpenedVault = NonNullable<ReturnType<typeof openVault>>;

export interface VaultSettings {
  readonly vault: OpenedVault;
  /** Server name → URL. */
  readonly serverUrls: Readonly<Record<string, string>>;
  /** Of the key that encrypts; absent where the vault does not. */
  readonly keyId?: string;
}

export async function openVaultSettings(terminal: Terminal, { config: path }: GlobalOptions): Promise<VaultSettings> {
  const { env, directory } = terminal;
  const file = await readConfigFile(path, env, directory);
  const what = file?.what ?? 'configuration';
  const config = parseAs(Config, substitute(pick(file?.value), env, what), 'CONFIG_INVALID', what);
  const vault = openVault({ config, baseDirectory: file?.baseDirectory ?? directory }, env);
  if (vault === undefined)
    throw new CountersignError('CONFIG_INVALID', `The ${what} names no vault. Configure one (vault) and try again.`, {
      path: 'vault',
    });
  const keyId = config.vault?.kind === 'directory' ? config.vault.keys[0]?.id : undefined;
  return {
    vault,
    serverUrls: Object.fromEntries(Object.entries(config.servers).map(([name, { url }]) => [name, url])),
    ...(keyId === undefined ? {} : { keyId }),
  };
}

function pick(value: unknown): unknown {
  if (!isRecord(value)) return value ?? {};
  const { vault, servers } = value;
  const shown = isRecord(servers)
    ? Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, onlyUrl(server)]))
    : servers;
  return Object.fromEntries(Object.entries({ vault, servers: shown }).filter(([, each]) => each !== undefined));
}

function onlyUrl(server: unknown): unknown {
  return isRecord(server) ? { url: server['url'] } : server;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * What a client needs of `countersign.yaml`: queue, payload keys, artifact folder, where servers are.
 *
 * 1. Nothing else of the file is looked at, so that a client needs none of the workers' secrets (INV-S1).
 */
import { resolve } from 'node:path';
import { Config, type ConfigInput } from '../contracts/schemas/config.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { substitute } from '../workers/config-environment.ts';
import { type ConfigFile, readConfigFile } from '../workers/config-file.ts';
import type { Terminal } from './terminal.ts';

export interface ClientSettings {
  readonly taskQueue: string;
  readonly encryption: Config['encryption'];
  /** Absolute. */
  readonly artifacts: string;
  /** Server name → URL. */
  readonly serverUrls: Readonly<Record<string, string>>;
}

export async function loadClientSettings(
  path: string | undefined,
  { env, directory }: Pick<Terminal, 'env' | 'directory'>,
): Promise<ClientSettings> {
  const file = await readConfigFile(path, env, directory);
  const what = file?.what ?? 'configuration';
  const { taskQueue, encryption, artifacts, servers } = parseAs(
    Config,
    substitute(pick(file), env, what),
    'CONFIG_INVALID',
    what,
  );
  return {
    taskQueue,
    encryption,
    artifacts: resolve(file?.baseDirectory ?? directory, artifacts.directory),
    serverUrls: Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url])),
  };
}

function pick(file: ConfigFile | undefined): unknown {
  if (!isRecord(file?.value)) return file?.value ?? {};
  const { taskQueue, encryption, artifacts, servers } = file.value;
  const urls = isRecord(servers)
    ? Object.fromEntries(
        Object.entries(servers).map(([name, server]) => [name, isRecord(server) ? { url: server['url'] } : server]),
      )
    : servers;
  const picked = { taskQueue, encryption, artifacts, servers: urls };
  return Object.fromEntries(Object.entries(picked).filter(([, value]) => value !== undefined)) satisfies Partial<
    Record<keyof ConfigInput, unknown>
  >;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Reads from `countersign.yaml` what a codec server needs, and starts it.
 *
 * 1. Nothing else in the file is read: of all secrets, a codec server has `encryption.keys` alone (INV-S1).
 */
import { CountersignError } from '../../contracts/errors.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { CodecServerConfig } from '../../contracts/schemas/gateway.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { CodecLog, CodecServer } from '../../gateway/codec/server.ts';
import { createDecoder } from '../../workers/codec.ts';
import { readConfigFile, substitute } from '../../workers/config/load.ts';
import { idCaseIn, isRecord } from './gateway.ts';
import type { GlobalOptions } from './options.ts';
import type { Terminal } from './terminal.ts';

export interface CodecSettings {
  readonly config: CodecServerConfig;
  readonly file: Config;
}

/** Names of the parts of a configuration that a codec server reads whole. */
const READ = ['codecServer', 'encryption', 'egress'] as const;

/** @throws CountersignError `CONFIG_INVALID` */
export async function loadCodecSettings(
  { env, directory }: Pick<Terminal, 'env' | 'directory'>,
  { config: path }: Pick<GlobalOptions, 'config'>,
): Promise<CodecSettings> {
  const file = await readConfigFile(path, env, directory);
  const what = file?.what ?? 'configuration';
  const value: Record<string, unknown> = isRecord(file?.value) ? file.value : {};
  const picked = Object.fromEntries(READ.flatMap((name) => (name in value ? [[name, value[name]]] : [])));
  const { gateway } = value;
  // The rest of the gateway's settings may hold a secret of its own.
  const provider = isRecord(gateway) && 'oidc' in gateway ? { gateway: { oidc: gateway['oidc'] } } : {};
  const chosen = { ...picked, ...provider, policy: idCaseIn(value) };
  const config = parseAs(Config, substitute(chosen, env, what), 'CONFIG_INVALID', what);
  if (config.encryption.keys.length === 0)
    throw new CountersignError(
      'CONFIG_INVALID',
      `The ${what} has no encryption.keys, so runs are not encrypted and there is nothing to decode.`,
      { path: 'encryption.keys' },
    );
  const own = config.codecServer ?? CodecServerConfig.parse({});
  const codecServer = { ...own, oidc: own.oidc ?? config.gateway?.oidc };
  return { config: codecServer, file: { ...config, codecServer } };
}

export async function startCodec(
  { config, file }: CodecSettings,
  namespace: string,
  log: CodecLog,
): Promise<CodecServer> {
  // Both take time to load, so other commands do without them.
  const { openProvider } = await import('../../workers/composition.ts');
  const { startCodecServer } = await import('../../gateway/codec/server.ts');
  const outlet = openProvider(file, 'codecServer');
  const close = async (): Promise<void> => await outlet?.close();
  try {
    const server = await startCodecServer({
      config,
      namespace,
      codec: createDecoder(file),
      idCase: file.policy.idCase,
      ask: async (url, init) => {
        if (outlet === undefined) throw new CountersignError('INTERNAL', 'There is no identity provider to ask.');
        return await outlet.fetch(url, init);
      },
      log,
    });
    return { ...server, stop: async () => void (await Promise.all([server.stop(), close()])) };
  } catch (error) {
    await close();
    throw error;
  }
}

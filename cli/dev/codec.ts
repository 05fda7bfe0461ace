/** Starts the codec server of `countersign dev`: where runs are encrypted, Temporal UI on this machine shows them in clear. */
import { CodecServerConfig } from '../../contracts/schemas/gateway.ts';
import type { CodecServer } from '../../gateway/codec/server.ts';
import type { LoadedConfig } from '../../workers/config/load.ts';
import { startCodec } from '../session/codec-server.ts';
import { linesTo } from '../session/gateway.ts';
import type { Terminal } from '../session/terminal.ts';

interface Place {
  readonly namespace: string;
  readonly uiPort: number;
}

/**
 * Starts it before Temporal, which is told its address. On a free port: nobody needs to know it.
 * @returns undefined where nothing is encrypted
 */
export async function startDevCodec(
  { config }: Pick<LoadedConfig, 'config'>,
  { namespace, uiPort }: Place,
  terminal: Pick<Terminal, 'err'>,
): Promise<CodecServer | undefined> {
  if (config.encryption.keys.length === 0) return undefined;
  const origins = [`http://127.0.0.1:${uiPort}`, `http://localhost:${uiPort}`];
  const codecServer = CodecServerConfig.parse({ port: 0, development: true, origins });
  // Readers on one's own machine are not logged.
  const log = { ...linesTo(terminal), info: () => undefined };
  return await startCodec({ config: codecServer, file: { ...config, codecServer } }, namespace, log);
}

/**
 * Starts the servers of `countersign dev`: the gateway, with the development login unless the configuration says
 * otherwise, and where runs are encrypted the codec server, so that Temporal UI on this machine shows them in clear.
 */
import { Client } from '@temporalio/client';
import { Countersign } from '../../client/countersign.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CodecServerConfig, GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { CodecServer } from '../../gateway/codec/server.ts';
import { createDataConverter } from '../../workers/codec.ts';
import type { LoadedConfig } from '../../workers/config/load.ts';
import { connectClient } from '../../workers/connection.ts';
import { snapshotIfAny } from '../session/catalog-reading.ts';
import { gatewayParts, linesTo, startCodec, startOn } from '../session/gateway.ts';
import { loadClientSettings } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';

/** Everybody who is asked by the demo's policy may also start and stop runs. */
const DEVELOPERS = { ids: ['ann'], groups: ['reviewers'] };

const DEVELOPMENT = { development: true, may: { start: DEVELOPERS, administer: DEVELOPERS }, gate: {} } as const;

interface Place {
  readonly address: string;
  readonly namespace: string;
  readonly port: number;
  /** URL of the demo server, where the configuration is the one made for trying things out. */
  readonly filesUrl: string | undefined;
}

/** @returns undefined in trust mode `signed` without a key for the gateway */
export async function startDevGateway(
  { config, path, baseDirectory }: LoadedConfig,
  { address, namespace, port, filesUrl }: Place,
  terminal: Terminal,
) {
  const { mode } = config.trust;
  if (mode === 'signed' && config.gateway?.signing === undefined) return undefined;
  const gateway = { ...(config.gateway ?? GatewayConfig.parse(DEVELOPMENT)), port };
  const parts = await gatewayParts({ ...config, gateway }, mode, baseDirectory);
  const settings = await loadClientSettings(path, terminal);
  const connection = await connectClient({ address });
  const client = new Client({ connection, namespace, dataConverter: createDataConverter(config) });
  const started = await startOn({ client, settings }, parts, linesTo(terminal), terminal.env);
  if (filesUrl !== undefined)
    await connectDevCatalog({ client, taskQueue: settings.taskQueue }, filesUrl).catch((error: unknown) => {
      if (!(error instanceof CountersignError)) throw error;
      terminal.err(`The gate offers nothing yet: ${error.message}\n`);
    });
  return {
    gateway: started,
    isOpen: gateway.development === true,
    stop: async () => {
      await started.stop();
      await parts.close();
      await connection.close();
    },
  };
}

/** Keeps a catalog of the demo server, so that the gate has something to offer. What was set of its tools stays. */
async function connectDevCatalog(
  { client, taskQueue }: { readonly client: Client; readonly taskQueue: string },
  url: string,
): Promise<void> {
  const catalog = new Countersign({ client, taskQueue }).catalog('files');
  const known = await snapshotIfAny(catalog);
  if (known?.connection?.url === url) return;
  const expected = known === undefined ? {} : { expectedVersion: known.policyVersion };
  // The administrator whom the configuration of `cli/dev/folder.ts` names.
  await catalog.connect({ by: { id: 'ann' }, url, trusted: true, ...expected });
}

/**
 * Starts the codec server before Temporal, which is told its address. On a free port: nobody needs to know it.
 * @returns undefined where nothing is encrypted
 */
export async function startDevCodec(
  { config }: Pick<LoadedConfig, 'config'>,
  { namespace, uiPort }: { readonly namespace: string; readonly uiPort: number },
  terminal: Pick<Terminal, 'err'>,
): Promise<CodecServer | undefined> {
  if (config.encryption.keys.length === 0) return undefined;
  const origins = [`http://127.0.0.1:${uiPort}`, `http://localhost:${uiPort}`];
  const codecServer = CodecServerConfig.parse({ port: 0, development: true, origins });
  const log = { ...linesTo(terminal), info: () => undefined };
  return await startCodec({ ...config, codecServer }, namespace, log);
}

/** Starts a service whose gate MCP clients reach: a recording server with a catalog, and keys of clients. */
import { Client as ModernClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { until } from '../until.ts';
import type { CatalogHandle } from '../../../client/index.ts';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import type { GatewayConfigInput } from '../../../contracts/schemas/gateway.ts';
import type { Gateway } from '../../../gateway/gateway.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { startWorld, type World } from '../world/world.ts';
import { startTestGateway, startTestProvider, type TestProvider } from './gateway-world.ts';

/** Origin under which the provider knows the gate; clients reach it elsewhere. */
export const GATE_ORIGIN = 'https://gate.example';

/** A key for each name: `ann/coder` is Ann by the client `coder`. */
export const KEYS = ['ann/coder', 'ann/other', 'bea/coder'] as const;
export type KeyName = (typeof KEYS)[number];

export function secretOf(name: KeyName): string {
  return `gate-key-${name.replace('/', '-')}-${'k'.repeat(32)}`;
}

export interface GateWorld {
  readonly world: World;
  readonly bank: RecordingServer;
  readonly provider: TestProvider;
  gateway: Gateway;
  /** Stops the gateway, and starts another one. */
  restartGateway(): Promise<void>;
  /** Connects a client that no one here wrote (2026-07-28). */
  connect(name: KeyName, path?: string, at?: Gateway): Promise<ModernClient>;
  /** Connects a client of 2025-11-25, which knows its tasks. */
  connectEarlier(name: KeyName, at?: Gateway): Promise<Client>;
  /** Starts another gateway of the same service, which the test stops. */
  another(gate?: Partial<NonNullable<GatewayConfigInput['gate']>>): Promise<Gateway>;
  stop(): Promise<void>;
}

export type GateInput = Partial<NonNullable<GatewayConfigInput['gate']>>;

export async function startGateWorld(gate: GateInput = {}): Promise<GateWorld> {
  const provider = await startTestProvider();
  const bank = await startRecordingServer();
  const world = await startWorld({
    beside: [provider, bank],
    config: configOf(bank),
  });
  await connectBank(world, bank);
  const config = gatewayConfigOf(gate);
  const launch = async (): Promise<Gateway> => await startTestGateway(world, provider, { config });
  const clients: Pick<ModernClient, 'close'>[] = [];
  const gateWorld: GateWorld = {
    world,
    bank,
    provider,
    gateway: await launch(),
    restartGateway: async () => {
      await gateWorld.gateway.stop();
      gateWorld.gateway = await launch();
    },
    another: async (over = {}) =>
      await startTestGateway(world, provider, { config: { ...config, gate: { ...config.gate, ...over } } }),
    connect: async (name, path, at = gateWorld.gateway) => {
      const client = await connectClient(at, secretOf(name), path);
      clients.push(client);
      return client;
    },
    connectEarlier: async (name, at = gateWorld.gateway) => {
      const client = new Client({ name: 'test', version: '1' });
      const requestInit = { headers: { authorization: `Bearer ${secretOf(name)}` } };
      // Sound: its transport declares optional fields otherwise than its own client wants them.
      const transport = new Http(new URL(`${at.url}/mcp`), { requestInit }) as Parameters<Client['connect']>[0];
      await client.connect(transport);
      clients.push(client);
      return client;
    },
    stop: async () => {
      await Promise.all(clients.map(async (client) => await client.close()));
      await gateWorld.gateway.stop();
      await world.stop();
    },
  };
  return gateWorld;
}

/** Connects a client that no one here wrote (2026-07-28). @param path `/SERVER` for one server alone */
export async function connectClient({ url }: Pick<Gateway, 'url'>, token: string, path = ''): Promise<ModernClient> {
  const client = new ModernClient({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  const authProvider = { token: async () => token };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp${path}`), { authProvider }));
  return client;
}

/** Reads are allowed, `odd` waits for a second at most, an approval of `transfer` is good for a second, and everything else waits for Ben. */
export function configOf({ url }: Pick<RecordingServer, 'url'>): ConfigInput {
  return {
    policy: {
      strategy: 'annotations',
      approvers: { ids: ['ben'] },
      repeatable: 'trusted-reads',
      servers: {
        bank: {
          tools: {
            bare: 'deny',
            slow: 'allow',
            fail: 'allow',
            big: 'allow',
            odd: { action: 'ask', deadlineSeconds: 1 },
            transfer: { action: 'ask', validForSeconds: 1 },
          },
        },
      },
    },
    servers: { bank: { url, trusted: true, credentials: { kind: 'none' } } },
    catalog: { administrators: [{ ids: ['ann'], may: ['connect', 'loosen', 'tighten'] }], newTools: 'strategy' },
  };
}

/** Connects the server to a catalog, and waits until its tools stand there. */
export async function connectBank(
  { countersign }: Pick<World, 'countersign'>,
  { url }: Pick<RecordingServer, 'url'>,
): Promise<void> {
  const catalog = countersign.catalog('bank');
  await catalog.connect({ requestId: 'connect', by: { id: 'ann' }, url, trusted: true });
  await listed(catalog);
}

export function gatewayConfigOf(gate: GateInput): GatewayConfigInput {
  return {
    may: { start: { ids: ['ann', 'bea'] } },
    gate: {
      publicUrl: GATE_ORIGIN,
      holdSeconds: 2,
      keys: KEYS.map((name) => {
        const [id = '', client = ''] = name.split('/');
        return { id, client, secret: secretOf(name) };
      }),
      ...gate,
    },
  };
}

async function listed(catalog: CatalogHandle): Promise<void> {
  await until(async () => (await catalog.snapshot()).entries.length > 0, { what: 'the list of the catalog' });
}

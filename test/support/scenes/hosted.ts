/** Starts runs whose servers the provider of their model calls, with real MCP servers behind it. */
import { expect } from '@jest/globals';
import type { RunHandle } from '../../../client/index.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import {
  hostingModel,
  type HostedSaid,
  type HostingProvider,
  startHostingProvider,
} from '../models/hosting-provider.ts';
import { type FilesystemServer, startFilesystemServer } from '../servers/real-servers.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../servers/recording-server.ts';
import { type ZoneKey, zoneKey } from '../signing/keys.ts';
import { beforehand } from '../world/during.ts';
import { startWorld, type World } from '../world/world.ts';

export interface HostedWorld {
  readonly provider: HostingProvider;
  readonly bank: RecordingServer;
  readonly files: FilesystemServer;
  readonly world: World;
  /** Tools of the bank: a test may change them. */
  readonly tools: (typeof TOOLS)[number][];
  /** Starts a run whose model is the provider's, and says these things. */
  started(
    servers: readonly string[],
    steps: readonly HostedSaid[],
    authorizations?: Readonly<Record<string, string>>,
  ): Promise<RunHandle>;
  /** Starts a run whose model's provider keeps its answers; the servers may be local, too. */
  startedStored(
    servers: readonly string[],
    steps: readonly HostedSaid[],
    over?: Partial<RunSpecInput>,
  ): Promise<RunHandle>;
  /** Returns what the provider was asked about a purpose: model steps, and requests that execute. */
  askedAs(purpose: string): { readonly steps: readonly JsonObject[]; readonly calls: readonly JsonObject[] };
}

async function startHostedWorld(): Promise<HostedWorld> {
  const provider = await startHostingProvider();
  const files = await startFilesystemServer();
  // The provider's client takes no list with a tool whose hints are of the wrong type.
  const tools = TOOLS.filter(({ name }) => name !== 'odd');
  // With the names of servers before them, these two would read alike.
  tools.push(...['pay__now', 'now'].map((name) => ({ name, inputSchema: { type: 'object' as const } })));
  const bank = await startRecordingServer({ tools });
  const zone: ZoneKey = await zoneKey();
  const at = { url: bank.url, credentials: { kind: 'none' } } as const;
  // A provider that is asked twice may call twice: what the operator says of repeating does not count.
  const hosted = { ...at, execute: 'hosted' as const, repeatable: ['pay'] };
  const gpt = hostingModel(provider);
  const world = await startWorld({
    zone,
    beside: [provider, files, bank],
    client: { servers: { mine: { url: bank.url, key: zone.publicJwk } } },
    config: {
      models: {
        gpt,
        keeping: { ...gpt, storesAnswers: true },
      },
      servers: {
        local: at,
        auto: { ...at, execute: 'auto' },
        files: { ...hosted, url: files.url },
        mine: { url: bank.url, execute: 'hosted' },
        drifting: { ...hosted, recheckSeconds: 0 },
        ...Object.fromEntries(['bank', 'bank__pay', 'far', 'open', 'shut', 'short'].map((name) => [name, hosted])),
      },
      policy: {
        approvers: { ids: ['ann', 'bob'], may: ['edit', 'respond'] },
        servers: {
          open: { default: 'allow' },
          shut: { default: 'deny' },
          short: { tools: { pay: { action: 'ask', deadlineSeconds: 2 } } },
        },
      },
    },
  });
  let scripts = 0;
  const start = async (
    model: string,
    servers: readonly string[],
    steps: readonly HostedSaid[],
    over: Partial<RunSpecInput>,
    options: Parameters<World['start']>[2],
  ): Promise<RunHandle> => {
    const name = `script ${(scripts += 1)} of ${model}`;
    provider.script(name, [...steps, { text: 'done' }]);
    const named = servers.map((each) => ({ name: each }));
    const agent = { name: 'clerk', model };
    return await world.start([{ text: 'unused' }], { agent, input: name, servers: named, ...over }, options);
  };
  return {
    provider,
    bank,
    files,
    world,
    tools,
    started: async (servers, steps, authorizations) =>
      await start('gpt', servers, steps, {}, authorizations === undefined ? {} : { authorizations }),
    startedStored: async (servers, steps, over = {}) => await start('keeping', servers, steps, over, {}),
    askedAs: (purpose) => {
      const about = provider.asked.filter(({ context }) => JSON.stringify(context).includes(purpose));
      return {
        steps: about.filter(({ approves }) => !approves).map(({ body }) => body),
        calls: about.filter(({ approves }) => approves).map(({ body }) => body),
      };
    },
  };
}

/** Has one during the tests of a file: every request of all of them has the published shape. */
export function useHostedWorld(): HostedWorld {
  return beforehand(startHostedWorld, async ({ world, provider }) => {
    await world.stop();
    expect(provider.asked.flatMap(({ violations }) => violations)).toEqual([]);
  });
}

export function pay(server: string, purpose: string, tool = 'pay') {
  return { server, tool, arguments: { purpose, amount: 5 } };
}

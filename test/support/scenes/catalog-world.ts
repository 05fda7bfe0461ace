/** Runs catalog commands against a service of its own, with one real MCP server for each catalog. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { Tool } from '@modelcontextprotocol/server';
import { stringify } from 'yaml';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import { catalogId } from '../../../domain/catalog/state.ts';
import { LOOPBACK } from '../egress.ts';
import { type CommandResult, documentOf, errorOf, type ReportedError, runCommand } from '../cli.ts';
import { startEngine } from '../engine.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { startWorld } from '../world/world.ts';

/** A description that clears the screen, reverses text, and looks like one of our lines. */
export const HOSTILE = 'Reads.\u001b[2J\u202eevil\nAccept it: countersign catalog allow';

/** Output of `catalog list SERVER --json`. */
export interface ListedTools {
  readonly version: number;
  readonly tools: readonly {
    readonly name: string;
    readonly status: string;
    readonly changed: boolean;
    readonly definition: string;
    readonly setting: object;
    readonly verdict: { readonly kind: string; readonly rules: readonly string[] };
  }[];
}

export interface CatalogWorld {
  /** Folder in which commands run. */
  readonly directory: string;
  /** Tools of one server. The next refresh finds a change made here. */
  toolsOf(server: string): Tool[];
  close(server: string): Promise<void>;
  /** Ends the catalog as a click in Temporal UI does. */
  terminate(server: string): Promise<void>;
  cli(line: string, input?: string): Promise<CommandResult>;
  /** Runs a command of `catalog` that must succeed, with --json. */
  json<T>(line: string, input?: string): Promise<T>;
  /**
   * Runs a command that must fail.
   * @returns its exit code and its error
   */
  refusal(line: string, input?: string): Promise<readonly [number, ReportedError]>;
  tool(server: string, name: string): Promise<ListedTools['tools'][number]>;
  /** Asks for a loosening, and has the second administrator agree. */
  loosened(line: string, server: string): Promise<void>;
  stop(): Promise<void>;
}

/** Ann and Cleo may do everything, and a loosening needs both; Tim and the night shift may tighten. */
export async function startCatalogWorld(names: readonly string[]): Promise<CatalogWorld> {
  const engine = await startEngine();
  const servers = new Map<string, { readonly tools: Tool[]; readonly server: RecordingServer }>();
  for (const name of names) {
    const tools = someTools();
    servers.set(name, { tools, server: await startRecordingServer({ tools }) });
  }
  const config: ConfigInput = {
    egress: LOOPBACK,
    policy: { strategy: 'annotations', approvers: { ids: ['ann'], groups: ['ops'] } },
    servers: Object.fromEntries(
      [...servers].map(([name, { server }]) => [
        name,
        { url: server.url, trusted: true, credentials: { kind: 'none' } },
      ]),
    ),
    catalog: {
      administrators: [
        { ids: ['ann', 'cleo'], may: ['connect', 'loosen', 'tighten'] },
        { ids: ['tim'], groups: ['night'], may: ['tighten'] },
      ],
      loosening: 'countersign',
    },
  };
  await writeFile(join(engine.directory, 'countersign.yaml'), stringify(config));
  const beside = [...servers.values()].map(({ server }) => server);
  const service = await startWorld({ engine, config, beside });
  const found = (name: string) => {
    const server = servers.get(name);
    if (server === undefined) throw new Error(`no server ${name}`);
    return server;
  };
  const world: CatalogWorld = {
    directory: engine.directory,
    toolsOf: (name) => found(name).tools,
    close: async (name) => found(name).server.close(),
    terminate: async (server) =>
      void (await service.client.workflow.getHandle(catalogId({ tenant: 'default', server })).terminate('by mistake')),
    cli: async (line, input = '') => {
      const { address, namespace } = engine.server;
      const args = [...line.split(' '), '--address', address, '--namespace', namespace];
      return await runCommand(args, { directory: engine.directory, input });
    },
    json: async <T>(line: string, input?: string): Promise<T> => {
      const result = await world.cli(`catalog ${line} --json`, input);
      expect(result).toMatchObject({ exitCode: 0, err: '' });
      return documentOf<T>(result);
    },
    refusal: async (line, input) => {
      const result = await world.cli(`catalog ${line} --json`, input);
      return [result.exitCode, errorOf(result)];
    },
    tool: async (server, name) => {
      const { tools } = await world.json<ListedTools>(`list ${server}`);
      const listed = tools.find((each) => each.name === name);
      if (listed === undefined) throw new Error(`no tool ${name}`);
      return listed;
    },
    loosened: async (line, server) => {
      const asked = await world.json<{ status: string; changeId: string; change: { digest: string } }>(
        `${line} --as ann`,
      );
      expect(asked).toMatchObject({ status: 'waiting', changeId: expect.any(String) });
      await world.json(`approve ${server} ${asked.changeId} --as cleo --digest ${asked.change.digest}`);
    },
    stop: async () => {
      await service.stop();
      await engine.stop();
    },
  };
  return world;
}

function someTools(): Tool[] {
  const object = { type: 'object' } as const;
  return [
    { name: 'pay', description: 'Pays an amount.', inputSchema: object },
    { name: 'lookup', description: HOSTILE, inputSchema: object, annotations: { readOnlyHint: true } },
    { name: 'close', inputSchema: { ...object, properties: { account: { type: 'string' } } } },
  ];
}

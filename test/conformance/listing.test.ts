/**
 * Lists of tools, when a run starts and when a catalog is refreshed: they are counted in the limits of their server
 * (ADR 0037), and what they say of tasks reads only who waits for tasks (MCP 2025-11-25, ADR 0041).
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import type { LiveTools } from '../../activities/discovery/access.ts';
import { createDiscoverCatalog, createDiscoverTools } from '../../activities/gate/discover-tools.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { createKeptSessions } from '../../activities/mcp/kept-sessions.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { listTools } from '../../activities/mcp/listing.ts';
import type { ServerConnection, TokenBinding } from '../../activities/mcp/port.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { createPriors } from '../../activities/mcp/session.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import type { DiscoverInput } from '../../contracts/wire/tools.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { limitedServers } from '../../workers/metrics.ts';
import { catalogSnapshot } from '../support/builders/catalog.ts';
import { LOOPBACK, loopbackEgress } from '../support/egress.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';

type Settings = NonNullable<ConfigInput['servers']>[string];

/** Both ways to list, as of one worker. A failure comes as its code and facts. */
function desk(
  server: { readonly url: string },
  settings: Partial<Settings> = {},
  parts: Partial<Parameters<typeof createDiscoverTools>[0]> = {},
) {
  const config = Config.parse({
    servers: { files: { url: server.url, credentials: { kind: 'none' }, ...settings } },
    egress: LOOPBACK,
  });
  const artifacts = createMemoryStore();
  let mints = 0;
  const common = {
    config,
    artifacts,
    broker: { mint: async () => ((mints += 1), { evidence: { strategy: 'none' }, secrets: [] }) },
    server: createMcpToolServer({ legacy: LEGACY_CALLS, artifacts, egress: loopbackEgress() }),
    limits: new ServerLimits({ configured: limitedServers(config), tell: () => {} }),
    liveTools: { learn: () => {} },
    readCatalog: async () => undefined,
    ...parts,
  };
  const [discover, refresh] = [createDiscoverTools(common), createDiscoverCatalog(common)];
  const url = canonicalServerUrl(server.url);
  const as = async <Input, Output>(
    workflowType: string,
    workflowId: string,
    activity: (input: Input) => Promise<Output>,
    input: Input,
  ): Promise<Output> => {
    const info = { workflowType, workflowNamespace: 'default', workflowExecution: { workflowId, runId: 'x' } };
    const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
    try {
      return await environment.run<[Input], Output, typeof activity>(activity, input);
    } catch (error) {
      throw Object.assign(new Error('not listed', { cause: error }), codedFailureIn(error));
    }
  };
  const definitions = async (ref: ArtifactRef) =>
    ServerTools.parse(JSON.parse(new TextDecoder().decode(await artifacts.get(ref)))).tools.map(
      ({ definition }) => definition,
    );
  return {
    mints: () => mints,
    /** What a run is told that starts, and what it keeps. */
    run: async (workflowId: string, over: Partial<DiscoverInput> = {}) => {
      const initiator = { id: 'ann', groups: [], tenant: 'default' };
      const run = { namespace: 'default', workflowId, initiator, specHash: '' };
      const found = await as(RUN_WORKFLOW, workflowId, discover, { run, server: { name: 'files', url }, ...over });
      if ('authorization' in found) throw new Error('turned away');
      return { count: found.count, tools: await definitions(found.tools), refused: found.refused };
    },
    catalog: async () => {
      const catalog = { tenant: 'default', server: 'files' };
      const connection = CatalogConnection.parse({ url, trusted: false });
      const found = await as(CATALOG_WORKFLOW, catalogId(catalog), refresh, { ...catalog, connection });
      return await definitions(found.listing);
    },
  };
}

describe('the limits of a server', () => {
  const OK = { era: 'modern', pages: [[{ name: 'act', inputSchema: { type: 'object' } }]] } as const;
  let server: RawServer;
  beforeAll(async () => void (server = await startRawServer(OK)));
  beforeEach(() => server.become(OK));
  afterAll(async () => server.close());
  const lists = (): number => server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/list').length;
  const limited = (limits: Settings['limits']) => desk(server, { limits: { waitSeconds: 60, ...limits } });
  const held = (code: string) => ({
    code,
    facts: { server: 'files', heldSeconds: 60, retryAfterMs: expect.any(Number) },
  });
  const answering = (status: number, headers: Readonly<Record<string, string>> = {}) =>
    server.become({ ...OK, intercept: (_, response) => (response.writeHead(status, headers).end(), true) });

  test('a rate: what is over it is not sent, has no token, and is told when to come back', async () => {
    const { run, catalog, mints } = limited({ perSecond: 0.001 });
    const before = lists();
    expect(await run('one')).toMatchObject({ count: 1 });
    await expect(run('two')).rejects.toMatchObject(held('TOOL_RATE_LIMITED'));
    await expect(catalog()).rejects.toMatchObject(held('TOOL_RATE_LIMITED'));
    expect([lists() - before, mints()]).toEqual([1, 1]);
  });

  test('places: a list that is under way has one, and gives it back', async () => {
    const { run, catalog } = limited({ concurrency: 1 });
    let answer: () => void = () => {};
    const asked = new Promise<void>((resolve) => {
      server.become({ ...OK, onList: (send) => ((answer = send), resolve()) });
    });
    const first = catalog();
    await asked;
    await expect(run('meanwhile')).rejects.toMatchObject(held('TOOL_RATE_LIMITED'));
    answer();
    expect(await first).toMatchObject([{ name: 'act' }]);
    server.become(OK);
    expect(await run('meanwhile')).toMatchObject({ count: 1 });
  });

  test('a breaker: lists that fail open it, a server that refuses one is there', async () => {
    const { run, catalog } = limited({ breaker: { failures: 1 } });
    answering(403);
    for (const _ of [1, 2]) await expect(run('refused')).rejects.toMatchObject({ code: 'TOOL_FORBIDDEN' });
    answering(500);
    await expect(run('broken')).rejects.toMatchObject({ code: 'DISCOVERY_FAILED' });
    server.become(OK);
    const before = lists();
    await expect(run('broken')).rejects.toMatchObject(held('TOOL_UNAVAILABLE'));
    await expect(catalog()).rejects.toMatchObject(held('TOOL_UNAVAILABLE'));
    expect(lists()).toBe(before);
  });

  test('Retry-After of a list is kept for the others', async () => {
    const { run } = limited({});
    answering(429, { 'retry-after': '60' });
    await expect(run('one')).rejects.toMatchObject({ code: 'DISCOVERY_FAILED', facts: { retryAfterMs: 60_000 } });
    server.become(OK);
    await expect(run('two')).rejects.toMatchObject(held('TOOL_RATE_LIMITED'));
  });
});

test('INV-G4: what a run lists is kept as listed with the credentials that the catalog names', async () => {
  const server = await startRawServer({ era: 'modern', pages: [[{ name: 'act', inputSchema: { type: 'object' } }]] });
  const connection = { url: canonicalServerUrl(server.url), trusted: false, credentials: 'reader' };
  const catalog = catalogSnapshot([], { connection });
  const learned: Parameters<LiveTools['learn']>[] = [];
  const liveTools = { learn: (...given: (typeof learned)[number]) => void learned.push(given) };
  try {
    await desk(server, {}, { liveTools, readCatalog: async () => catalog }).run('run-1');
    expect(learned).toEqual([
      [expect.anything(), expect.objectContaining({ tools: [expect.objectContaining({ name: 'act' })] }), catalog],
    ]);
  } finally {
    await server.close();
  }
});

describe('tools that can only, or may, be called as tasks', () => {
  const DIG = { name: 'dig', inputSchema: { type: 'object' } };
  let server: TaskServer;
  beforeAll(async () => void (server = await startTaskServer()));
  beforeEach(() => server.become({}));
  afterAll(async () => await server.close());

  test('one that can only be called so is there for runs that wait for tasks, and refused by name for others', async () => {
    const { run, catalog } = desk(server, { tasks: {} });
    const required = [{ ...DIG, taskSupport: 'required' }];
    expect(await run('run-1', { tasks: true })).toEqual({ count: 1, tools: required, refused: [] });
    expect(await run('run-1')).toEqual({
      count: 0,
      tools: [],
      refused: [{ name: 'dig', reason: expect.stringContaining('only be called as a task') }],
    });
    expect(await catalog()).toEqual(required);
  });

  test('where no tasks are configured, a catalog keeps no tool that is only called as one', async () => {
    expect(await desk(server).catalog()).toEqual([]);
  });

  test('INV-D1: one that may be called so is listed as releases before tasks read it, unless the operator wants it as one', async () => {
    server.become({ support: 'optional' });
    const plain = desk(server, { tasks: {} });
    const wanted = desk(server, { tasks: { optional: ['dig'] } });
    const optional = [{ ...DIG, taskSupport: 'optional' }];
    const listed = async (of: typeof plain, over: Partial<DiscoverInput> = {}) => {
      const { tools, refused } = await of.run('run-1', over);
      expect(refused).toEqual([]);
      return tools;
    };
    expect([await listed(plain, { tasks: true }), await plain.catalog()]).toEqual([[DIG], [DIG]]);
    expect([await listed(wanted, { tasks: true }), await wanted.catalog()]).toEqual([optional, optional]);
    expect(await listed(wanted)).toEqual([DIG]);
  });
});

test('a list that nobody wants any more, once some of its tools were read, ends as that, and asks for no other page', async () => {
  const named = (name: string) => [{ name, inputSchema: { type: 'object' } }];
  const server = await startRawServer({ era: 'modern', pages: [named('first'), named('second')] });
  const nobody = new AbortController();
  // The first tool is searched for its proofs.
  const secrets = (): readonly string[] => {
    nobody.abort();
    return [];
  };
  const binding: TokenBinding = { secrets, isDeclined: () => false, send: () => Promise.reject(new Error('no token')) };
  const connection: ServerConnection = {
    name: 'files',
    url: server.url,
    headers: {},
    protocol: 'auto',
    secrets: [],
    binding,
  };
  const listed = listTools({
    connection,
    signal: nobody.signal,
    connectMs: 10_000,
    priors: createPriors(),
    kept: createKeptSessions(),
    known: false,
    egress: loopbackEgress(),
  });
  try {
    await expect(listed).rejects.toThrow('could not be listed: the discovery was cancelled');
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/list')).toHaveLength(1);
  } finally {
    await server.close();
  }
});

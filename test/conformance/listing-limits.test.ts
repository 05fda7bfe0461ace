/** Lists of tools are counted in the limits of their server: when a run starts, and when a catalog is refreshed (ADR 0037). */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createDiscoverCatalog, createDiscoverTools } from '../../activities/gate/discover-tools.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { limitedServers } from '../../workers/limit-metrics.ts';
import { LOOPBACK, loopbackEgress } from '../support/egress.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';

const OK = { era: 'modern', pages: [[{ name: 'act', inputSchema: { type: 'object' } }]] } as const;
const CATALOG = { tenant: 'default', server: 'files' };
let server: RawServer;
let lists: () => number;
beforeAll(async () => {
  server = await startRawServer(OK);
  lists = () => server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/list').length;
});
beforeEach(() => server.become(OK));
afterAll(async () => server.close());

type Limits = NonNullable<NonNullable<ConfigInput['servers']>[string]['limits']>;

/** Both ways to list, under one count. */
function desk(limits: Limits) {
  const config = Config.parse({
    servers: { files: { url: server.url, credentials: { kind: 'none' }, limits } },
    egress: LOOPBACK,
  });
  let mints = 0;
  const common = {
    config,
    artifacts: createMemoryStore(),
    broker: { mint: async () => ((mints += 1), { evidence: { strategy: 'none' }, secrets: [] }) },
    server: createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() }),
    limits: new ServerLimits({ configured: limitedServers(config), tell: () => {} }),
  };
  const discover = createDiscoverTools({
    ...common,
    liveTools: { learn: () => {} },
    readCatalog: async () => undefined,
  });
  const refresh = createDiscoverCatalog(common);
  const as = async <Input, Output>(
    workflowType: string,
    workflowId: string,
    activity: (input: Input) => Promise<Output>,
    input: Input,
  ): Promise<unknown> => {
    const info = { workflowType, workflowNamespace: 'default', workflowExecution: { workflowId, runId: 'x' } };
    const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
    return await environment.run(activity, input).catch((error: unknown) => codedFailureIn(error) ?? error);
  };
  return {
    mints: () => mints,
    run: async (workflowId: string) =>
      await as(RUN_WORKFLOW, workflowId, discover, {
        run: {
          namespace: 'default',
          workflowId,
          initiator: { id: 'ann', groups: [], tenant: 'default' },
          specHash: '',
        },
        server: { name: 'files', url: canonicalServerUrl(server.url) },
      }),
    catalog: async () =>
      await as(CATALOG_WORKFLOW, catalogId(CATALOG), refresh, {
        ...CATALOG,
        connection: CatalogConnection.parse({ url: canonicalServerUrl(server.url), trusted: false }),
      }),
  };
}

const HELD = (code: string) => ({
  code,
  facts: { server: 'files', heldSeconds: 60, retryAfterMs: expect.any(Number) },
});

test('a rate: what is over it is not sent, has no token, and is told when to come back', async () => {
  const { run, catalog, mints } = desk({ perSecond: 0.001, waitSeconds: 60 });
  const before = lists();
  expect(await run('one')).toMatchObject({ count: 1 });
  expect(await run('two')).toMatchObject(HELD('TOOL_RATE_LIMITED'));
  expect(await catalog()).toMatchObject(HELD('TOOL_RATE_LIMITED'));
  expect([lists() - before, mints()]).toEqual([1, 1]);
});

test('places: a list that is under way has one, and gives it back', async () => {
  const { run, catalog } = desk({ concurrency: 1, waitSeconds: 60 });
  let answer: () => void = () => {};
  const asked = new Promise<void>((resolve) => {
    server.become({ ...OK, onList: (send) => ((answer = send), resolve()) });
  });
  const first = catalog();
  await asked;
  expect(await run('meanwhile')).toMatchObject(HELD('TOOL_RATE_LIMITED'));
  answer();
  expect(await first).toMatchObject({ tools: [{ name: 'act' }] });
  server.become(OK);
  expect(await run('meanwhile')).toMatchObject({ count: 1 });
});

test('a breaker: lists that fail open it, a server that refuses one is there', async () => {
  const refusing = desk({ breaker: { failures: 1 }, waitSeconds: 60 });
  const answering = (status: number) =>
    server.become({ ...OK, intercept: (_, response) => (response.writeHead(status).end(), true) });
  answering(403);
  for (const _ of [1, 2]) expect(await refusing.run('refused')).toMatchObject({ code: 'TOOL_FORBIDDEN' });
  answering(500);
  expect(await refusing.run('broken')).toMatchObject({ code: 'DISCOVERY_FAILED' });
  server.become(OK);
  const before = lists();
  expect(await refusing.run('broken')).toMatchObject(HELD('TOOL_UNAVAILABLE'));
  expect(await refusing.catalog()).toMatchObject(HELD('TOOL_UNAVAILABLE'));
  expect(lists()).toBe(before);
});

test('Retry-After of a list is kept for the others', async () => {
  const { run } = desk({ waitSeconds: 60 });
  server.become({
    ...OK,
    intercept: (_, response) => (response.writeHead(429, { 'retry-after': '60' }).end(), true),
  });
  expect(await run('one')).toMatchObject({ code: 'DISCOVERY_FAILED', facts: { retryAfterMs: 60_000 } });
  server.become(OK);
  expect(await run('two')).toMatchObject(HELD('TOOL_RATE_LIMITED'));
});

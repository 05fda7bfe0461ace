/** Tools that can only, or may, be called as tasks: what a list says of them reads only who waits for tasks (MCP 2025-11-25, ADR 0041). */
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { DefaultLogger } from '@temporalio/worker';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createDiscoverCatalog, createDiscoverTools } from '../../activities/gate/discover-tools.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import type { DiscoverInput } from '../../contracts/wire/tools.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import { Config } from '../../contracts/schemas/config.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { LOOPBACK, loopbackEgress } from '../support/egress.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';

const CATALOG = { tenant: 'default', server: 'mine' };

let server: TaskServer;
beforeAll(async () => {
  server = await startTaskServer();
});
afterEach(() => server.become({}));
afterAll(async () => await server.close());

/** Both ways to list; each gives what is stored, and what is refused. */
function desk(settings: { tasks?: { optional?: string[] } } = { tasks: {} }) {
  const config = Config.parse({
    servers: { mine: { url: server.url, credentials: { kind: 'none' }, ...settings } },
    egress: LOOPBACK,
  });
  const artifacts = createMemoryStore();
  const common = {
    config,
    artifacts,
    broker: { mint: async () => ({ evidence: { strategy: 'none' as const }, secrets: [] }) },
    server: createMcpToolServer({ legacy: LEGACY_CALLS, artifacts, egress: loopbackEgress() }),
    limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
  };
  const discover = createDiscoverTools({
    ...common,
    liveTools: { learn: () => {} },
    readCatalog: async () => undefined,
  });
  const refresh = createDiscoverCatalog(common);
  const as = <Input, Output>(
    workflowType: string,
    workflowId: string,
    call: (input: Input) => Promise<Output>,
    input: Input,
  ) => {
    const info = { workflowType, workflowNamespace: 'default', workflowExecution: { workflowId, runId: 'x' } };
    const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
    return environment.run<[Input], Output, typeof call>(call, input);
  };
  const definitions = async (ref: ArtifactRef) =>
    ServerTools.parse(JSON.parse(new TextDecoder().decode(await artifacts.get(ref)))).tools.map(
      ({ definition }) => definition,
    );
  const url = canonicalServerUrl(server.url);
  return {
    run: async (over: Partial<DiscoverInput>) => {
      const initiator = { id: 'ann', groups: [], tenant: 'default' };
      const run = { namespace: 'default', workflowId: 'run-1', initiator, specHash: '' };
      const found = await as(RUN_WORKFLOW, 'run-1', discover, { run, server: { name: 'mine', url }, ...over });
      if ('authorization' in found) throw new Error('turned away');
      return { tools: await definitions(found.tools), refused: found.refused };
    },
    catalog: async () => {
      const connection = CatalogConnection.parse({ url, trusted: false });
      const { listing } = await as(CATALOG_WORKFLOW, catalogId(CATALOG), refresh, { ...CATALOG, connection });
      return await definitions(listing);
    },
  };
}

const DIG = { name: 'dig', inputSchema: { type: 'object' } };

test('one that can only be called so is there for runs that wait for tasks, and refused by name for others', async () => {
  const { run, catalog } = desk();
  expect(await run({ tasks: true })).toEqual({ tools: [{ ...DIG, taskSupport: 'required' }], refused: [] });
  expect(await run({})).toEqual({
    tools: [],
    refused: [{ name: 'dig', reason: expect.stringContaining('only be called as a task') }],
  });
  expect(await catalog()).toEqual([{ ...DIG, taskSupport: 'required' }]);
});

test('INV-D1: where no tasks are configured, a catalog keeps none that earlier releases cannot read', async () => {
  const { catalog } = desk({});
  expect(await catalog()).toEqual([]);
});

test('INV-D1: one that may be called so is listed as releases before tasks read it, unless the operator wants it as one', async () => {
  server.become({ support: 'optional' });
  const plain = desk();
  expect(await plain.run({ tasks: true })).toEqual({ tools: [DIG], refused: [] });
  expect(await plain.catalog()).toEqual([DIG]);
  const wanted = desk({ tasks: { optional: ['dig'] } });
  expect(await wanted.run({ tasks: true })).toEqual({ tools: [{ ...DIG, taskSupport: 'optional' }], refused: [] });
  expect(await wanted.run({})).toEqual({ tools: [DIG], refused: [] });
  expect(await wanted.catalog()).toEqual([{ ...DIG, taskSupport: 'optional' }]);
});

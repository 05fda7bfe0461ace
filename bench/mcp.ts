/**
 * What a tool call costs beside the same call by a bare MCP client, and what connecting costs with and without what is
 * known of the server: no Temporal, no model, one server of each protocol era in a process of its own.
 *
 *   npx tsx bench/mcp.ts [--times 300]
 */
import { parseArgs } from 'node:util';
import { Client, type FetchLike, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createMemoryStore } from '../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../activities/catalog/reader.ts';
import { Conditions } from '../activities/policy/condition.ts';
import { createTokenBroker } from '../activities/tokens/broker.ts';
import { createCallTool } from '../activities/gate/call-tool.ts';
import { createDiscoverTools } from '../activities/gate/discover-tools.ts';
import { createLiveTools } from '../activities/discovery/access.ts';
import { createMcpToolServer } from '../activities/mcp/mcp-server.ts';
import type { ServerConnection } from '../activities/mcp/port.ts';
import { Config } from '../contracts/schemas/config.ts';
import { canonicalServerUrl } from '../domain/text/urls.ts';
import { end, forkBench, heard } from './process.ts';
import { createEgress, type Egress } from '../activities/egress/fetch.ts';
import { ServerLimits } from '../activities/limits/server-limits.ts';

/** Its servers are on this machine. */
const EGRESS = createEgress({
  rules: { allowLoopback: true, allowInsecure: false, allowPrivate: [] },
  origins: { has: () => true },
});

const { values } = parseArgs({ options: { times: { type: 'string', default: '300' } } });
const times = Number(values.times);
const ARGUMENTS = { run: 'bench', step: 1 };

type Act = () => Promise<unknown>;
/** An egress that sends by this fetch. */
function egressBy(send: FetchLike | undefined): Egress {
  if (send === undefined) return EGRESS;
  return {
    ...EGRESS,
    outlet: ({ onWriting }) => ({
      fetch: async (url, init) => {
        onWriting?.();
        return await send(url, init);
      },
      isBusy: () => false,
      close: async () => undefined,
    }),
  };
}

/** A way to make one call; with a fetch of its own where its requests are counted. */
type Lane = (fetch?: FetchLike) => Act | Promise<Act>;

/** p50 in ms, after some that warm up. */
async function p50(act: Act): Promise<number> {
  for (let warm = 0; warm < 20; warm += 1) await act();
  const took: number[] = [];
  for (let left = times; left > 0; left -= 1) {
    const from = performance.now();
    await act();
    took.push(performance.now() - from);
  }
  return took.toSorted((one, other) => one - other)[Math.floor(took.length / 2)] ?? 0;
}

/** HTTP requests of one call, once all is known that a lane may know. */
async function requestsOf(lane: Lane): Promise<number> {
  let requests = 0;
  const act = await lane((url, init) => {
    // Nobody answers the standing stream of an older era; the adapter does not open it, and the bare client's is none
    // of the call.
    if (init?.method !== 'GET') requests += 1;
    return fetch(url, init);
  });
  await act();
  requests = 0;
  await act();
  return requests;
}

async function measure(era: string, url: string): Promise<void> {
  const lanes: Readonly<Record<string, Lane>> = {
    'bare client: connect, call, close': (counted) => async () => {
      const client = new Client({ name: 'bare', version: '1' }, { versionNegotiation: { mode: 'auto' } });
      const options = counted === undefined ? {} : { fetch: counted };
      await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
      await client.callTool({ name: 'echo', arguments: ARGUMENTS });
      await client.close();
    },
    'adapter, server not known: session, call, end': (counted) => () => callOf(url, counted)(),
    'adapter, server known: session, call, end': (counted) => callOf(url, counted),
    'dispatch activity, tools listed lately': (counted) => dispatch(url, 3_600, counted),
    'dispatch activity, tools listed again': (counted) => dispatch(url, 0, counted),
  };
  let bareMs: number | undefined;
  for (const [lane, make] of Object.entries(lanes)) {
    const requests = await requestsOf(make);
    const ms = await p50(await make());
    bareMs ??= ms;
    const line = { era, lane, requests, p50Ms: Number(ms.toFixed(2)), ratio: Number((ms / bareMs).toFixed(2)) };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
}

function callOf(url: string, counted?: FetchLike): Act {
  const server = createMcpToolServer({
    artifacts: createMemoryStore(),
    egress: egressBy(counted),
  });
  const connection: ServerConnection = { name: 'tools', url, headers: {}, protocol: 'auto', secrets: [] };
  const call = {
    definition: { name: 'echo', inputSchema: { type: 'object' } },
    arguments: ARGUMENTS,
    idempotencyKey: 'bench/t1.c0',
    timeoutMs: 20_000,
    resultBytes: 65_536,
    heartbeat: () => {},
  };
  return () => server.call(connection, { ...call, signal: new AbortController().signal });
}

/** The activity as a worker has it, for one call that policy allows. */
async function dispatch(url: string, recheckSeconds: number, counted?: FetchLike): Promise<Act> {
  const artifacts = createMemoryStore();
  const config = Config.parse({
    servers: { tools: { url, credentials: { kind: 'none' }, recheckSeconds } },
    policy: { strategy: 'never' },
  });
  const broker = createTokenBroker({ config, keys: new Map(), egress: EGRESS });
  const server = createMcpToolServer({
    artifacts,
    egress: egressBy(counted),
  });
  const liveTools = createLiveTools({ config, broker, server });
  const limits = new ServerLimits({ configured: new Map(), tell: () => {} });
  const parts = { config, artifacts, broker, server, liveTools, limits, readCatalog: async () => undefined };
  const loadToolset = createToolsetLoader(artifacts);
  const unasked = (): Promise<never> => Promise.reject(new Error('the run is asked'));
  const callTool = createCallTool({
    ...parts,
    conditions: new Conditions(),
    loadToolset,
    readMessage: async () => undefined,
    readDiscarded: async () => undefined,
    heldRun: { ask: unasked, word: unasked },
  });
  const run = {
    namespace: 'default',
    workflowId: 'bench',
    initiator: { id: 'ann', groups: [], tenant: 'default' },
    specHash: 'a'.repeat(64),
  };
  const info = {
    workflowType: 'agentRun',
    workflowNamespace: run.namespace,
    workflowExecution: { workflowId: run.workflowId, runId: 'run-1' },
  };
  const binding = { name: 'tools', url: canonicalServerUrl(url) };
  const discover = createDiscoverTools(parts);
  const inActivity = <Input, Output>(activity: (input: Input) => Promise<Output>, input: Input): Promise<Output> =>
    new MockActivityEnvironment(info).run(activity, input);
  const found = await inActivity(discover, { run, server: binding });
  if (!('tools' in found)) throw new Error(found.authorization.message);
  const toolset = [{ server: binding.name, tools: found.tools }];
  const echo = (await loadToolset(toolset)).find(({ definition }) => definition.name === 'echo');
  if (echo === undefined) throw new Error('the server has no echo');
  const input = {
    run,
    runId: 'run-1',
    decidedIn: ['run-1'],
    callId: 't1.c0',
    name: echo.modelName,
    target: { server: echo.server, serverUrl: echo.serverUrl, tool: 'echo', definitionHash: echo.hash },
    arguments: ARGUMENTS,
    proof: { kind: 'policy' as const, rules: [] },
    toolset,
    server: binding,
    limits: { resultBytes: 65_536, callTimeoutSeconds: 20 },
    attempt: 1,
    idempotencyKey: 'bench/t1.c0',
  };
  return async () => {
    const result = await inActivity(callTool, input);
    if (result.kind !== 'ended' || result.outcome.kind !== 'succeeded') throw new Error(JSON.stringify(result));
  };
}

for (const era of ['2025-11-25', '2026-07-28']) {
  const child = forkBench(era === '2025-11-25' ? './echo-server.ts' : './echo-server-modern.ts');
  try {
    const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(child, 'ready');
    await measure(era, url);
  } finally {
    await end(child);
  }
}
process.exit(0);

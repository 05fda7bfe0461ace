/**
 * Measures a call through the gate as an MCP server against the same call straight to its server: time from request to
 * result, and the CPU of gateway, worker and Temporal. One JSON line each; nothing is asserted.
 *
 * `npx tsx bench/gate.ts [--calls 200] [--at-once 8] [--main dist/cli/main.js]`, with TEMPORAL_CLI_PATH set.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { Countersign } from '../client/index.ts';
import type { ConfigInput } from '../contracts/schemas/config.ts';
import { connectClient } from '../workers/connection.ts';
import { startDevServer } from '../workers/dev-server.ts';
import { startGatewayProcess } from './gateway-process.ts';
import { median } from './lane.ts';
import { cpuMsOf, end, forkBench, heard } from './process.ts';
import { startWorkerProcess } from './worker-process.ts';
import { BENCH_QUEUE, benchConfig } from './workload.ts';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '200' },
    'at-once': { type: 'string', default: '8' },
    main: { type: 'string' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
const main = values.main ?? fileURLToPath(new URL('../cli/main.ts', import.meta.url));
const directory = await mkdtemp(join(tmpdir(), 'countersign-gate-'));
const tools = forkBench('./echo-server.ts');
const { url: toolUrl } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
const server = await startDevServer({ executable, ui: false, dbFilename: join(directory, 'gate.db') });
const { address } = server;
const taskQueue = `${BENCH_QUEUE}-gate`;
const configFile = join(directory, 'countersign.yaml');
const secret = 'bench-key-'.padEnd(40, 'x');
const limits = { requestsPerMinute: 1_000_000, streams: 2_000, streamsPerPerson: 1_000 };
const config: ConfigInput = {
  ...benchConfig(toolUrl),
  taskQueue,
  // Both tools are allowed: nobody is waited for here.
  policy: { strategy: 'never' },
  catalog: { administrators: [{ ids: ['bench'], may: ['connect', 'loosen', 'tighten'] }], newTools: 'strategy' },
  gateway: {
    port: 0,
    development: true,
    may: { start: { ids: ['bench'] } },
    gate: { keys: [{ client: 'bench', id: 'bench', tenant: 'default', secret }] },
    limits,
  },
};
await writeFile(configFile, stringify(config));
const client = new Client({ connection: await connectClient({ address }) });
const { child: worker } = await startWorkerProcess(configFile, address, values.main);
await new Countersign({ client, taskQueue })
  .catalog('echo')
  .connect({ by: { id: 'bench' }, url: toolUrl, trusted: true });
const gateway = await startGatewayProcess(configFile, address, main);
const direct = new McpClient({ name: 'bench', version: '1' });
const gated = new McpClient({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'auto' } });
try {
  await direct.connect(new StreamableHTTPClientTransport(new URL(toolUrl)));
  const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp/echo`), {
    authProvider: { token: async () => secret },
  });
  await gated.connect(transport);
  while ((await gated.listTools()).tools.length < 3) await pause(100);
  for (const tool of ['echo', 'write']) {
    await measure('straight to the server', direct, tool);
    // A call that may be repeated has no ticket; one that may run only once has.
    await measure('through the gate', gated, tool);
  }
} finally {
  await direct.close();
  await gated.close();
  await end(gateway.child);
  await end(worker);
  await client.connection.close();
  await server.stop();
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

async function measure(way: string, by: McpClient, tool: string): Promise<void> {
  let step = 0;
  const call = async (): Promise<number> => {
    const at = performance.now();
    const result = await by.callTool({ name: tool, arguments: { run: `${way} ${tool}`, step: (step += 1) } });
    if (result.isError === true) throw new Error(JSON.stringify(result.content));
    return performance.now() - at;
  };
  for (let warm = 0; warm < 10; warm += 1) await call();
  for (const atOnce of [1, Number(values['at-once'])]) {
    const before = used();
    const at = performance.now();
    const took: number[] = [];
    const calls = Number(values.calls);
    await Promise.all(
      Array.from({ length: atOnce }, async (_, lane) => {
        for (let made = lane; made < calls; made += atOnce) took.push(await call());
      }),
    );
    const seconds = (performance.now() - at) / 1_000;
    const after = used();
    const cpu = Object.fromEntries(
      Object.entries(after).map(([name, ms]) => [name, rounded((ms - (before[name] ?? 0)) / calls)]),
    );
    const sorted = took.toSorted((one, other) => one - other);
    const p95 = sorted[Math.floor(sorted.length * 0.95)] ?? 0;
    const figures = { p50Ms: rounded(median(sorted)), p95Ms: rounded(p95), perSecond: rounded(calls / seconds) };
    console.log(JSON.stringify({ figure: way, tool, atOnce, ...figures, cpuMsPerCall: cpu, load: loadavg()[0] }));
  }
}

function used(): Readonly<Record<string, number>> {
  return {
    gateway: cpuMsOf(gateway.child.pid ?? 0),
    worker: cpuMsOf(worker.pid ?? 0),
    temporal: cpuMsOf(server.pid ?? 0),
  };
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

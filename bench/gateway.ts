/**
 * Measures the gateway as a process of its own, before many waiting requests: the inbox by API and by page, decisions
 * (CPU of the gateway, and the time from the click to the call at the tool server), and many readers of `/v1/events`.
 * One JSON line each; nothing is asserted.
 *
 * `npx tsx bench/gateway.ts [--requests 10000] [--looks 200] [--decisions 100] [--viewers 500] [--main
 * dist/cli/main.js]`, with TEMPORAL_CLI_PATH set.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { Countersign } from '../client/index.ts';
import { connectClient } from '../workers/connection.ts';
import { startDevServer } from '../workers/dev-server.ts';
import { spec } from './lane.ts';
import { startGatewayProcess } from './gateway-process.ts';
import { cpuMsOf, end, forkBench, heard, rssOf } from './process.ts';
import { startWorkerProcess } from './worker-process.ts';
import { BENCH_QUEUE, benchConfig, OPEN_REQUESTS, wideScript } from './workload.ts';

const MIB = 1_048_576;
const STARTED_AT_ONCE = 20;
const LOOKS_AT_ONCE = 8;
const LOOK_MS = 500;
/** Time over which readers who are told nothing are watched. */
const QUIET_MS = 10_000;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '10000' },
    looks: { type: 'string', default: '200' },
    decisions: { type: 'string', default: '100' },
    viewers: { type: 'string', default: '500' },
    main: { type: 'string' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
const runs = Math.ceil(Number(values.requests) / OPEN_REQUESTS);
const ids = Array.from({ length: runs }, (_, index) => `waiting-${index}`);
const main = values.main ?? fileURLToPath(new URL('../cli/main.ts', import.meta.url));
const directory = await mkdtemp(join(tmpdir(), 'countersign-gateway-'));
const tools = forkBench('./echo-server.ts');
const { url: toolUrl } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
const server = await startDevServer({ executable, ui: false, dbFilename: join(directory, 'gateway.db') });
const { address } = server;
const taskQueue = `${BENCH_QUEUE}-gateway`;
const configFile = join(directory, 'countersign.yaml');
const people = { ids: ['bench'], groups: [] };
const limits = { requestsPerMinute: 1_000_000, streams: 2_000, streamsPerPerson: 1_000 };
const gatewayConfig = { port: 0, development: true as const, may: { administer: people }, limits };
await writeFile(
  configFile,
  stringify({ ...benchConfig(toolUrl, { wide: wideScript() }), taskQueue, gateway: gatewayConfig }),
);
const client = new Client({ connection: await connectClient({ address }) });
const { child: worker } = await startWorkerProcess(configFile, address, values.main);
const gateway = await startGatewayProcess(configFile, address, main);
const { token, cookie } = await signIn();
try {
  tell('all wait', await fill());
  const api = async () => await get('/v1/requests?mine=decide', { authorization: `Bearer ${token}` });
  const page = async () => await get('/', { cookie });
  tell('inbox by API, first look', { ms: rounded(await timed(api)) });
  tell('inbox by API', await looks(api));
  tell('inbox by page, first look', { ms: rounded(await timed(page)) });
  tell('inbox by page', await looks(page));
  tell('decisions', await decisions());
  tell('readers', await readers());
} finally {
  await end(gateway.child);
  await end(worker);
  await client.connection.close();
  await server.stop();
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

async function signIn(): Promise<{ readonly token: string; readonly cookie: string }> {
  const answer = await fetch(`${gateway.url}/v1/development/sign-in`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'bench' }),
  });
  // Sound: the gateway answers so.
  const { token: own } = (await answer.json()) as { token: string };
  return { token: own, cookie: (answer.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '' };
}

/** Starts all runs, and waits until the gateway lists them. */
async function fill() {
  const countersign = new Countersign({ client, deadlineMs: 300_000 });
  const at = performance.now();
  await each(ids, STARTED_AT_ONCE, async (runId) => {
    await countersign.startRun({ runId, taskQueue, spec: spec('wide') });
  });
  const waiting = `TaskQueue = '${taskQueue}' AND CountersignPending = ${OPEN_REQUESTS}`;
  while ((await client.workflow.count(waiting)).count < runs) await pause(LOOK_MS);
  const seconds = (performance.now() - at) / 1_000;
  // One sweep of the gateway after the last change.
  await pause(3_000);
  return { runs, requests: runs * OPEN_REQUESTS, seconds: rounded(seconds), ...memory() };
}

async function get(path: string, headers: Readonly<Record<string, string>>): Promise<void> {
  const answer = await fetch(`${gateway.url}${path}`, { headers });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${text.slice(0, 200)}`);
}

async function looks(look: () => Promise<void>) {
  const all = Array.from({ length: Number(values.looks) }, (_, index) => String(index));
  const cpuMs = cpu();
  const alone: number[] = [];
  await each(all, 1, async () => void alone.push(await timed(look)));
  const cpuMsPerLook = rounded((cpu() - cpuMs) / all.length);
  const together: number[] = [];
  await each(all, LOOKS_AT_ONCE, async () => void together.push(await timed(look)));
  return {
    looks: all.length,
    ...quantiles(alone),
    cpuMsPerLook,
    [`at once ${LOOKS_AT_ONCE}`]: quantiles(together),
    ...memory(),
  };
}

/** Decides the first call of as many runs, one after the other, as people do: reads it, then sends. */
async function decisions() {
  await fetch(toolUrl.replace('/mcp', '/calls'));
  const some = ids.slice(0, Number(values.decisions));
  const sentAt = new Map<string, number>();
  const took: number[] = [];
  const cpuMs = cpu();
  await each(some, 1, async (runId) => {
    const decision = await shown(runId);
    sentAt.set(runId, Number(process.hrtime.bigint()) / 1e6);
    took.push(await timed(async () => await send(runId, decision)));
  });
  const cpuMsPerDecision = rounded((cpu() - cpuMs) / some.length);
  const arrived = new Map<string, number>();
  while (arrived.size < some.length) {
    await pause(LOOK_MS);
    const calls = await fetch(toolUrl.replace('/mcp', '/calls'));
    // Sound: `echo-server.ts` answers so.
    for (const { run, atMs } of (await calls.json()) as { run: string; atMs: number }[]) arrived.set(run, atMs);
  }
  const delays = some.map((runId) => (arrived.get(runId) ?? 0) - (sentAt.get(runId) ?? 0));
  return { decided: some.length, answered: quantiles(took), clickToCall: quantiles(delays), cpuMsPerDecision };
}

interface Shown {
  readonly digest: string;
  readonly runId: string;
}

async function shown(runId: string, callId = 't1.c0'): Promise<Shown> {
  const answer = await fetch(`${gateway.url}/v1/runs/${runId}/requests/${callId}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  // Sound: the gateway answers so.
  const { request } = (await answer.json()) as { request: Shown };
  return { digest: request.digest, runId: request.runId };
}

async function send(runId: string, { digest, runId: execution }: Shown, callId = 't1.c0'): Promise<void> {
  const answer = await fetch(`${gateway.url}/v1/runs/${runId}/requests/${callId}/decisions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ kind: 'approve', digest, runId: execution }),
  });
  if (answer.status !== 200) throw new Error(`a decision was answered ${answer.status}: ${await answer.text()}`);
  await answer.text();
}

/** Readers of all changes: what they cost while nothing changes, and while something does. */
async function readers() {
  const many = Number(values.viewers);
  const before = memory();
  const over = new AbortController();
  const told = new Map<string, number>();
  await each(
    Array.from({ length: many }, (_, index) => String(index)),
    50,
    async (name) => {
      const headers = { authorization: `Bearer ${token}` };
      const { body } = await fetch(`${gateway.url}/v1/events`, { headers, signal: over.signal });
      void (async () => {
        for await (const chunk of body ?? [])
          if (new TextDecoder().decode(chunk as Uint8Array).includes('event: change'))
            told.set(name, (told.get(name) ?? 0) + 1);
      })().catch(() => undefined);
    },
  );
  const open = memory();
  let cpuMs = cpu();
  await pause(QUIET_MS);
  const quietCpuMsPerSecond = rounded((cpu() - cpuMs) / (QUIET_MS / 1_000));
  const some = ids.slice(-20);
  cpuMs = cpu();
  await each(some, 1, async (runId) => await send(runId, await shown(runId, 't1.c1'), 't1.c1'));
  while (told.size < many) await pause(LOOK_MS);
  const cpuMsPerDecision = rounded((cpu() - cpuMs) / some.length);
  const after = memory();
  over.abort();
  return { readers: many, before, open, quietCpuMsPerSecond, decided: some.length, cpuMsPerDecision, after };
}

async function each(given: readonly string[], atOnce: number, act: (id: string) => Promise<void>): Promise<void> {
  const left = [...given];
  const some = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await act(id);
  };
  await Promise.all(Array.from({ length: atOnce }, some));
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const at = performance.now();
  await act();
  return performance.now() - at;
}

function quantiles(took: readonly number[]) {
  const sorted = took.toSorted((a, b) => a - b);
  const at = (share: number): number => rounded(sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN);
  return { p50Ms: at(0.5), p95Ms: at(0.95) };
}

function cpu(): number {
  return cpuMsOf(gateway.child.pid ?? 0);
}

function memory() {
  const pid = gateway.child.pid ?? 0;
  return { gatewayMiB: Math.round(rssOf(pid) / MIB), peakMiB: Math.round(rssOf(pid, 'VmHWM') / MIB) };
}

async function pause(ms: number): Promise<void> {
  await new Promise((done) => setTimeout(done, ms));
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function tell(what: string, figures: object): void {
  process.stdout.write(`${JSON.stringify({ what, ...figures, load: loadavg()[0] })}\n`);
}

/**
 * Measures many runs that wait: how fast they start, what the worker keeps of them, the inbox, and a replay of all. It
 * also measures decisions while the worker knows their runs (warm), after another worker has taken over (cold), and the
 * first one after SIGKILL. One JSON line each; nothing is asserted.
 *
 * `npx tsx bench/waiting.ts [--runs 1000] [--decided 100] [--main dist/cli/main.js]`, with TEMPORAL_CLI_PATH set, or
 * with the `--address` of another service, whose default namespace is set up.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { Countersign } from '../client/index.ts';
import { connectClient } from '../workers/connection.ts';
import { startDevServer } from '../workers/dev-server.ts';
import { spec } from './lane.ts';
import { end, endOf, forkBench, heard, rssOf } from './process.ts';
import { startWorkerProcess } from './worker-process.ts';
import { BENCH_QUEUE, benchConfig } from './workload.ts';

const MIB = 1_048_576;
/** Runs that are started at once, and decided at once. */
const STARTED_AT_ONCE = 50;
const DECIDED_AT_ONCE = 5;
const LOOK_MS = 500;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '1000' },
    decided: { type: 'string', default: '100' },
    address: { type: 'string' },
    main: { type: 'string' },
  },
});
const runs = Number(values.runs);
const ids = Array.from({ length: runs }, (_, index) => `waiting-${process.pid}-${index}`);
const directory = await mkdtemp(join(tmpdir(), 'countersign-waiting-'));
const tools = forkBench('./echo-server.ts');
const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
const server = values.address === undefined ? await ownServer() : undefined;
const address = server?.address ?? values.address ?? '';
const client = new Client({ connection: await connectClient({ address }) });
const countersign = new Countersign({ client, deadlineMs: 300_000 });
const taskQueue = `${BENCH_QUEUE}-waiting-${process.pid}`;
const configFile = join(directory, 'countersign.yaml');
await writeFile(configFile, stringify({ ...benchConfig(url), taskQueue }));

let worker = await started();
try {
  tell('idle', memory(worker));
  tell('all wait', { ...(await fill()), ...memory(worker) });
  tell('inbox', await inbox());
  // The last ones are warm, the first ones cold, so that no run is decided twice.
  const some = Math.min(Number(values.decided), Math.floor(runs / 2));
  tell('decisions, warm', await decisions(ids.slice(-some)));
  tell('after SIGKILL', await firstDecision(ids[0] ?? ''));
  tell('decisions, cold', { ...(await decisions(ids.slice(1, some))), ...memory(worker) });
  tell('replay of all', await replay());
} finally {
  await end(worker);
  await server?.stop();
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

async function ownServer() {
  const executable = process.env['TEMPORAL_CLI_PATH'];
  if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
  return await startDevServer({ executable, ui: false, dbFilename: join(directory, 'waiting.db') });
}

async function started(): Promise<ChildProcess> {
  return (await startWorkerProcess(configFile, address, values.main)).child;
}

/** Starts all, and waits until the inbox counts them. */
async function fill() {
  const at = performance.now();
  await each(ids, STARTED_AT_ONCE, async (runId) => {
    await countersign.startRun({ runId, taskQueue, spec: spec('bench') });
  });
  const startedMs = performance.now() - at;
  while ((await client.workflow.count(pending())).count < runs) await new Promise((done) => setTimeout(done, LOOK_MS));
  const seconds = (performance.now() - at) / 1_000;
  return { runs, startedPerSecond: rounded((runs * 1_000) / startedMs), waitingPerSecond: rounded(runs / seconds) };
}

function pending(): string {
  return `TaskQueue = '${taskQueue}' AND ExecutionStatus = 'Running' AND CountersignPending > 0`;
}

async function inbox() {
  const first = await timed(async () => await countersign.waiting());
  const all = await timed(async () => await countersign.waiting({ most: runs }));
  return { first100Ms: first.ms, allMs: all.ms, listed: all.value.length };
}

async function decisions(some: readonly string[]) {
  const took: number[] = [];
  await each(some, DECIDED_AT_ONCE, async (runId) => {
    took.push((await timed(async () => await decide(runId))).ms);
  });
  const sorted = took.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN;
  return { decided: some.length, atOnce: DECIDED_AT_ONCE, p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** Sent while nobody works, as people do. */
async function firstDecision(runId: string) {
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  const { ms } = await timed(async () => {
    const starting = started();
    await decide(runId);
    worker = await starting;
  });
  return { decidedMs: ms };
}

/** Reads the request and decides it, as a person's client does. */
async function decide(runId: string): Promise<void> {
  const run = countersign.run(runId);
  const request = (await run.requests()).find(({ status }) => status === 'open');
  if (request === undefined) throw new Error(`${runId} asks nothing`);
  const { callId, digest } = request;
  const decisionId = `${runId}-1`;
  const approver = { id: 'bench' };
  await run.decide({ kind: 'approve', decisionId, callId, digest, runId: request.runId, approver });
}

/** Of all that still wait, by the command that an operator uses before a new version. */
async function replay() {
  const main = values.main ?? join(import.meta.dirname, '../cli/main.ts');
  const loader = main.endsWith('.ts') ? ['--import', 'tsx'] : [];
  const args = ['replay', '--live', '--query', pending(), '--address', address, '--config', configFile];
  const { count } = await client.workflow.count(pending());
  const { ms, value } = await timed(async () => {
    const child = spawn(process.execPath, [...loader, main, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
    return await endOf(child);
  });
  return { replayed: count, ended: value, perSecond: rounded((count * 1_000) / ms) };
}

async function each(given: readonly string[], atOnce: number, act: (id: string) => Promise<void>): Promise<void> {
  const left = [...given];
  const some = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await act(id);
  };
  await Promise.all(Array.from({ length: atOnce }, some));
}

async function timed<T>(act: () => Promise<T>): Promise<{ readonly ms: number; readonly value: T }> {
  const at = performance.now();
  const value = await act();
  return { ms: Math.round(performance.now() - at), value };
}

function memory({ pid = 0 }: ChildProcess) {
  return { workerMiB: Math.round(rssOf(pid) / MIB), workerPeakMiB: Math.round(rssOf(pid, 'VmHWM') / MIB) };
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function tell(what: string, figures: object): void {
  process.stdout.write(`${JSON.stringify({ what, ...figures, load: loadavg()[0] })}\n`);
}

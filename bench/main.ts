/**
 * `npm run bench`: this service beside a minimal Temporal workflow that does the same model steps and tool calls, on one
 * server. One JSON line per figure, with the ratio to raw. Nothing is asserted. What is not measured: see README.md.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Countersign } from '../client/index.ts';
import { defined } from '../contracts/defined.ts';
import { startDevServer } from '../workers/dev-server.ts';
import { historySize } from './history.ts';
import { Lane, type LaneName, median, type Pass, spec } from './lane.ts';
import { end, forkBench, heard } from './process.ts';
import { BENCH_QUEUE, CALLS, OPEN_REQUESTS } from './workload.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '60' },
    loaded: { type: 'string', default: '200' },
    waiting: { type: 'string', default: '200' },
    passes: { type: 'string', default: '1' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the bench through `npm run bench`');

const directory = await mkdtemp(join(tmpdir(), 'countersign-bench-'));
const tools = forkBench('./echo-server.ts');
try {
  const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
  const raw = await measure('raw', url);
  const own = await measure('countersign', url);
  compare('runs per second, 1 at a time', '1/s', own.alone.runsPerSecond, raw.alone.runsPerSecond);
  compare('runs per second, 50 at a time', '1/s', own.loaded.runsPerSecond, raw.loaded.runsPerSecond);
  compare('run p50, 1 at a time', 'ms', own.alone.p50Ms, raw.alone.p50Ms);
  compare('CPU per run of worker and server, 1 at a time', 'ms', own.alone.cpuMsPerRun, raw.alone.cpuMsPerRun);
  compare('CPU per run of worker and server, 50 at a time', 'ms', own.loaded.cpuMsPerRun, raw.loaded.cpuMsPerRun);
  compare('approval to tool p50, 1 at a time', 'ms', own.alone.approvalToToolMs, raw.alone.approvalToToolMs);
  compare('history events per call', 'events', own.history.events / CALLS, raw.history.events / CALLS);
  compare('history bytes per call', 'bytes', own.history.bytes / CALLS, raw.history.bytes / CALLS);
  compare('memory per waiting cached run', 'bytes', own.waitingBytes, raw.waitingBytes);
  compare(`memory per cached run with ${OPEN_REQUESTS} open requests`, 'bytes', own.wideBytes ?? Number.NaN);
  compare('bundle', 'bytes', own.bundleBytes, raw.bundleBytes);
  compare('calls missing or repeated', 'calls', own.alone.wrong + own.loaded.wrong, raw.alone.wrong + raw.loaded.wrong);
  compare('bytes of turn 5', 'bytes', own.growth?.[4] ?? Number.NaN);
  compare('bytes of turn 50', 'bytes', own.growth?.[49] ?? Number.NaN);
} finally {
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

interface Measured {
  readonly alone: Pass;
  readonly loaded: Pass;
  readonly history: { readonly events: number; readonly bytes: number };
  readonly waitingBytes: number;
  readonly wideBytes?: number;
  readonly bundleBytes: number;
  readonly growth?: readonly number[];
}

/** A server of its own for each lane, so that neither pays for the other's rows. */
async function measure(name: LaneName, toolUrl: string): Promise<Measured> {
  const server = await startDevServer({
    executable: executable ?? '',
    ui: false,
    dbFilename: join(directory, `${name}.db`),
  });
  const lane = await Lane.open(name, server, toolUrl, directory);
  try {
    await lane.pass(20, 10);
    const passes: { alone: Pass; loaded: Pass }[] = [];
    for (let pass = 0; pass < Number(values.passes); pass += 1) {
      passes.push({
        alone: await lane.pass(Number(values.runs), 1),
        loaded: await lane.pass(Number(values.loaded), 50),
      });
    }
    const history = await historySize(lane.client, lane.lastRunId, name === 'raw' ? 'model' : 'modelStep');
    const growth = name === 'raw' ? undefined : await growthOf(lane);
    return {
      alone: middle(passes.map(({ alone }) => alone)),
      loaded: middle(passes.map(({ loaded }) => loaded)),
      history,
      waitingBytes: await waitingBytes(lane, Number(values.waiting), 'bench'),
      ...(name === 'raw' ? {} : { wideBytes: await waitingBytes(lane, Number(values.waiting), 'wide') }),
      bundleBytes: lane.bundleBytes,
      ...defined({ growth }),
    };
  } finally {
    await lane.close();
    await server.stop();
  }
}

async function growthOf(lane: Lane): Promise<readonly number[]> {
  const service = new Countersign({ client: lane.client, deadlineMs: 60_000 });
  const run = await service.startRun({ runId: 'growth', taskQueue: BENCH_QUEUE, spec: spec('long') });
  await run.result();
  return (await historySize(lane.client, 'growth', 'modelStep')).bytesPerTurn;
}

async function waitingBytes(lane: Lane, runs: number, model: 'bench' | 'wide'): Promise<number> {
  const before = (await lane.usage()).rssBytes;
  for (let left = runs; left > 0; left -= 20)
    await Promise.all(Array.from({ length: Math.min(20, left) }, () => lane.startWaiting(model)));
  return ((await lane.usage()).rssBytes - before) / runs;
}

function middle(passes: readonly Pass[]): Pass {
  const of = (field: keyof Pass): number => median(passes.map((pass) => pass[field]));
  return {
    runsPerSecond: of('runsPerSecond'),
    p50Ms: of('p50Ms'),
    cpuMsPerRun: of('cpuMsPerRun'),
    approvalToToolMs: of('approvalToToolMs'),
    wrong: passes.reduce((sum, { wrong }) => sum + wrong, 0),
  };
}

function compare(figure: string, unit: string, countersign: number, raw?: number): void {
  const ratio = raw === undefined || raw === 0 ? {} : { ratio: rounded(countersign / raw) };
  process.stdout.write(
    `${JSON.stringify({ figure, unit, countersign: rounded(countersign), ...(raw === undefined ? {} : { raw: rounded(raw) }), ...ratio })}\n`,
  );
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

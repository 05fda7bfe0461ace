/**
 * `npm run bench`: this service, with its stretches and without, beside a minimal Temporal workflow that does the same
 * model steps and tool calls. One JSON line per figure, with the ratio to raw. Nothing is asserted. README.md says what
 * is not measured.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Countersign } from '../client/index.ts';
import { defined } from '../contracts/defined.ts';
import { startDevServer } from '../workers/dev-server.ts';
import { type HistorySize, historySize } from './history.ts';
import { Lane, type LaneName, median, type Pass, spec } from './lane.ts';
import { end, forkBench, heard } from './process.ts';
import { BENCH_QUEUE, OPEN_REQUESTS } from './workload.ts';

const MIB = 1_048_576;
const LANES: readonly LaneName[] = ['raw', 'countersign', 'steps'];

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '60' },
    loaded: { type: 'string', default: '200' },
    waiting: { type: 'string', default: '1000' },
    wide: { type: 'string', default: '200' },
    passes: { type: 'string', default: '1' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the bench through `npm run bench`');

const directory = await mkdtemp(join(tmpdir(), 'countersign-bench-'));
const tools = forkBench('./echo-server.ts');
try {
  const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
  const lanes = new Map<LaneName, Measured>();
  for (const name of LANES) lanes.set(name, await measure(name, url));
  compare('runs per second, 1 at a time', '1/s', ({ alone }) => alone.runsPerSecond);
  compare('runs per second, 50 at a time', '1/s', ({ loaded }) => loaded.runsPerSecond);
  compare('run p50, 1 at a time', 'ms', ({ alone }) => alone.p50Ms);
  compare('CPU per run of worker and server, 1 at a time', 'ms', ({ alone }) => alone.cpuMsPerRun);
  compare('CPU per run of worker and server, 50 at a time', 'ms', ({ loaded }) => loaded.cpuMsPerRun);
  compare('approval to tool p50, 1 at a time', 'ms', ({ alone }) => alone.approvalToToolMs);
  compare('approval to tool p50, 50 at a time', 'ms', ({ loaded }) => loaded.approvalToToolMs);
  compare('history events per run', 'events', ({ history }) => history.events);
  compare('history bytes per run', 'bytes', ({ history }) => history.bytes);
  compare(`worker memory with ${values.waiting} waiting runs`, 'MiB', ({ waiting }) => waiting.rssBytes / MIB);
  compare('memory per waiting cached run', 'bytes', ({ waiting }) => waiting.bytesPerRun);
  compare(`memory per cached run with ${OPEN_REQUESTS} open requests`, 'bytes', ({ wide }) => wide?.bytesPerRun);
  compare('bundle', 'bytes', ({ bundleBytes }) => bundleBytes);
  compare('runs with missing, repeated or misplaced calls', 'runs', ({ alone, loaded }) => alone.wrong + loaded.wrong);
  compare('bytes of a run of 61 turns', 'bytes', ({ long }) => long?.bytes);
  compare('bytes of turn 5', 'bytes', ({ long }) => long?.bytesPerTurn[4]);
  compare('bytes of turn 50', 'bytes', ({ long }) => long?.bytesPerTurn[49]);

  function compare(figure: string, unit: string, of: (lane: Measured) => number | undefined): void {
    const shown = Object.fromEntries(
      [...lanes].flatMap(([name, lane]) => {
        const value = of(lane);
        return value === undefined ? [] : [[name, rounded(value)]];
      }),
    );
    const [own, raw] = [shown['countersign'], shown['raw']];
    const ratio = own === undefined || raw === undefined || raw === 0 ? {} : { ratio: rounded(own / raw) };
    process.stdout.write(`${JSON.stringify({ figure, unit, ...shown, ...ratio })}\n`);
  }
} finally {
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

interface Memory {
  /** Resident, while they all wait. */
  readonly rssBytes: number;
  readonly bytesPerRun: number;
}

interface Measured {
  readonly alone: Pass;
  readonly loaded: Pass;
  readonly history: HistorySize;
  readonly waiting: Memory;
  readonly bundleBytes: number;
  /** Of this service only. */
  readonly wide?: Memory;
  readonly long?: HistorySize;
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
    const long = name === 'raw' ? undefined : await longRun(lane);
    const waiting = await memoryOf(lane, Number(values.waiting), 'bench');
    const wide = name === 'raw' ? undefined : await memoryOf(lane, Number(values.wide), 'wide');
    return {
      alone: middle(passes.map(({ alone }) => alone)),
      loaded: middle(passes.map(({ loaded }) => loaded)),
      history,
      waiting,
      bundleBytes: lane.bundleBytes,
      ...defined({ wide, long }),
    };
  } finally {
    await lane.close();
    await server.stop();
  }
}

async function longRun(lane: Lane): Promise<HistorySize> {
  const service = new Countersign({ client: lane.client, deadlineMs: 60_000 });
  const run = await service.startRun({ runId: 'long', taskQueue: BENCH_QUEUE, spec: spec('long') });
  await run.result();
  return await historySize(lane.client, 'long', 'modelStep');
}

async function memoryOf(lane: Lane, runs: number, model: 'bench' | 'wide'): Promise<Memory> {
  const before = (await lane.usage()).rssBytes;
  for (let left = runs; left > 0; left -= 20)
    await Promise.all(Array.from({ length: Math.min(20, left) }, () => lane.startWaiting(model)));
  const { rssBytes } = await lane.usage();
  return { rssBytes, bytesPerRun: (rssBytes - before) / runs };
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

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/**
 * What a worker process takes of memory: before its first run, for each run that it keeps while it waits for one
 * decision (`bench`), for 20 (`wide`), or after 50 turns with answers of 20 KB (`talk`), and while many start at once.
 * One JSON line each; nothing is asserted.
 *
 * `npx tsx bench/memory.ts [--runs 60] [--starting 300]`, TEMPORAL_CLI_PATH set. With `--memoryMiB 1024` what a worker
 * process takes that is told so: `--starting 1200` runs start, of `--turns` turns with answers of `--resultKiB`, and
 * `--decided` of them are decided.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type DevServer, startDevServer } from '../workers/dev-server.ts';
import { type Bounded, bounded } from './bounded.ts';
import { Lane, type Waiting } from './lane.ts';
import { end, forkBench, heard, rssOf } from './process.ts';

const MIB = 1_048_576;
/** Runs that are started at once. */
const AT_ONCE = 50;
const LOOK_MS = 200;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '60' },
    starting: { type: 'string', default: '0' },
    memoryMiB: { type: 'string' },
    main: { type: 'string' },
    turns: { type: 'string' },
    resultKiB: { type: 'string', default: '0' },
    decided: { type: 'string', default: '0' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
const directory = await mkdtemp(join(tmpdir(), 'countersign-memory-'));
const tools = forkBench('./echo-server.ts');
try {
  const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
  const server = await startDevServer({ executable, ui: false, dbFilename: join(directory, 'memory.db') });
  try {
    if (values.memoryMiB === undefined) await inLane(server, url);
    else for await (const line of bounded(server, url, told(Number(values.memoryMiB)))) tell(line);
  } finally {
    await server.stop();
  }
} finally {
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

function told(memoryMiB: number): Bounded {
  const { starting, decided, turns, resultKiB, main } = values;
  const talk = turns === undefined ? undefined : { turns: Number(turns), bytes: Number(resultKiB) * 1_024 };
  return { memoryMiB, runs: Number(starting), decided: Number(decided), talk, main };
}

async function inLane(server: DevServer, url: string): Promise<void> {
  const lane = await Lane.open('countersign', server, url, directory);
  try {
    tell({ what: 'base', ...mib(await lane.usage()) });
    await lane.pass(20, 10);
    for (const model of ['bench', 'wide', 'talk'] as const) await measure(lane, model, Number(values.runs), 10);
    if (Number(values.starting) > 0) await measure(lane, 'bench', Number(values.starting), AT_ONCE);
  } finally {
    await lane.close();
  }
}

type Usage = Awaited<ReturnType<Lane['usage']>>;

async function measure(lane: Lane, model: Waiting, runs: number, atOnce: number): Promise<void> {
  const before = await lane.usage();
  let peak = 0;
  const looking = setInterval(() => (peak = Math.max(peak, rssOf(lane.workerPid))), LOOK_MS);
  let left = runs;
  const some = async (): Promise<void> => {
    for (; left > 0;) {
      left -= 1;
      await lane.startWaiting(model);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, runs) }, some));
  clearInterval(looking);
  const after = await lane.usage();
  const kib = (of: (usage: Usage) => number): number => Math.round((of(after) - of(before)) / 1_024 / runs);
  tell({
    what: model,
    runs,
    atOnce,
    peakRssMiB: Math.round(peak / MIB),
    ...mib(after),
    perRunKiB: { heap: kib((usage) => usage.workflowHeapBytes), rss: kib((usage) => usage.rssBytes) },
  });
}

function mib({ rssBytes, mainHeapBytes, workflowHeapBytes }: Usage) {
  return {
    rssMiB: Math.round(rssBytes / MIB),
    mainHeapMiB: Math.round(mainHeapBytes / MIB),
    workflowHeapMiB: Math.round(workflowHeapBytes / MIB),
  };
}

function tell(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/**
 * What runs that wait take of a worker's memory: each waits for one decision (`bench`), or for 20 (`wide`). One JSON line each; nothing
 * is asserted. Started with `npx tsx bench/memory.ts [--runs 60]`, TEMPORAL_CLI_PATH set.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startDevServer } from '../workers/dev-server.ts';
import { Lane } from './lane.ts';
import { end, forkBench, heard } from './process.ts';

const { values } = parseArgs({ options: { runs: { type: 'string', default: '60' } } });
const runs = Number(values.runs);
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
const directory = await mkdtemp(join(tmpdir(), 'countersign-memory-'));
const tools = forkBench('./echo-server.ts');
try {
  const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
  const server = await startDevServer({ executable, ui: false, dbFilename: join(directory, 'memory.db') });
  const lane = await Lane.open('countersign', server, url, directory);
  try {
    await lane.pass(20, 10);
    for (const model of ['bench', 'wide'] as const) {
      const before = (await lane.usage()).rssBytes;
      for (let left = runs; left > 0; left -= 10)
        await Promise.all(Array.from({ length: Math.min(10, left) }, () => lane.startWaiting(model)));
      const bytes = Math.round(((await lane.usage()).rssBytes - before) / runs);
      process.stdout.write(`${JSON.stringify({ model, runs, bytesPerRun: bytes })}\n`);
    }
  } finally {
    await lane.close();
    await server.stop();
  }
} finally {
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

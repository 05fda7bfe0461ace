/**
 * Where the time goes between the death of the only worker (SIGKILL) and the first decision that counts: one JSON line
 * per pass, and the medians. Nothing is asserted.
 *
 * `npx tsx bench/restart.ts [--passes 5] [--main dist/cli/main.js]`, TEMPORAL_CLI_PATH set. `--main` is a built
 * command, whose bundle lies beside it; without it the sources are run, and make theirs.
 */
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
import { median } from './lane.ts';
import { end, forkBench, heard } from './process.ts';
import { type StartedWorker, startWorkerProcess } from './worker-process.ts';
import { BENCH_QUEUE, benchConfig } from './workload.ts';

const { values } = parseArgs({
  options: {
    passes: { type: 'string', default: '5' },
    main: { type: 'string' },
    runs: { type: 'string', default: '5' },
  },
});
const executable = process.env['TEMPORAL_CLI_PATH'];
if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set');
const directory = await mkdtemp(join(tmpdir(), 'countersign-restart-'));
const tools = forkBench('./echo-server.ts');
const { url } = await heard<{ kind: 'ready'; url: string }, 'ready'>(tools, 'ready');
const server = await startDevServer({ executable, ui: false, dbFilename: join(directory, 'restart.db') });
const client = new Client({ connection: await connectClient({ address: server.address }) });
const countersign = new Countersign({ client, deadlineMs: 120_000 });
const configFile = join(directory, 'countersign.yaml');
await writeFile(configFile, stringify(benchConfig(url)));

const marks: Record<string, number>[] = [];
const start = async (): Promise<StartedWorker> => await startWorkerProcess(configFile, server.address, values.main);
let worker = await start();
try {
  for (let pass = 0; pass < Number(values.passes); pass += 1) {
    const runs = await Promise.all(
      Array.from({ length: Number(values.runs) }, (_, index) => waiting(`${pass}-${index}`)),
    );
    worker.child.kill('SIGKILL');
    await once(worker.child, 'exit');
    const at = performance.now();
    const starting = start();
    // Sent while nobody works, as people do: the client asks again until somebody answers.
    const decided = await Promise.all(runs.map(async (run) => await decide(run, at)));
    worker = await starting;
    const first = (name: 'seenMs' | 'decidedMs' | 'endedMs'): number => Math.min(...decided.map((one) => one[name]));
    const mark = {
      load: Math.round((loadavg()[0] ?? 0) * 10) / 10,
      polls: worker.pollsMs,
      pollsCpu: worker.cpuMs,
      firstSeen: first('seenMs'),
      firstDecision: first('decidedMs'),
      lastDecision: Math.max(...decided.map(({ decidedMs }) => decidedMs)),
      firstEnd: first('endedMs'),
    };
    marks.push(mark);
    process.stdout.write(`${JSON.stringify(mark)}\n`);
  }
  const names = Object.keys(marks[0] ?? {});
  process.stdout.write(
    `${JSON.stringify({ median: Object.fromEntries(names.map((name) => [name, median(marks.map((mark) => mark[name] ?? Number.NaN))])) })}\n`,
  );
} finally {
  await end(worker.child);
  await server.stop();
  await end(tools);
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);

async function waiting(name: string): Promise<{ readonly runId: string }> {
  const runId = `restart-${process.pid}-${name}`;
  const run = await countersign.startRun({
    runId,
    taskQueue: BENCH_QUEUE,
    spec: {
      agent: { name: 'bench', model: 'bench' },
      input: 'go',
      initiator: { id: 'bench' },
      servers: [{ name: 'echo' }],
    },
  });
  for (;;) if ((await run.requests()).some(({ status }) => status === 'open')) return { runId };
}

async function decide({ runId }: { readonly runId: string }, at: number) {
  const since = (): number => Math.round(performance.now() - at);
  const run = countersign.run(runId);
  const request = (await run.requests()).find(({ status }) => status === 'open');
  if (request === undefined) throw new Error('nothing is asked');
  const seenMs = since();
  const { callId, digest } = request;
  await run.decide({
    kind: 'approve',
    decisionId: `${runId}-1`,
    callId,
    digest,
    runId: request.runId,
    approver: { id: 'bench' },
  });
  const decidedMs = since();
  await run.result();
  return { seenMs, decidedMs, endedMs: since() };
}

/**
 * A worker process that is told how much memory it may use, while many runs start and wait, then does nothing, then has
 * every run decided. Resident memory is what the kernel says of the process: the most that it ever was, and as it is.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { Countersign } from '../client/index.ts';
import { connectClient } from '../workers/connection.ts';
import type { DevServer } from '../workers/dev-server.ts';
import { spec } from './lane.ts';
import { end, rssOf } from './process.ts';
import { startWorkerProcess } from './worker-process.ts';
import { BENCH_QUEUE, benchConfig, talkScript } from './workload.ts';

const MIB = 1_048_576;
/** Runs that are started at once, or decided. */
const AT_ONCE = 50;
const IDLE_MS = 20_000;

export interface Bounded {
  readonly memoryMiB: number;
  readonly runs: number;
  /** How many of them are decided in the end. */
  readonly decided: number;
  /** Of a conversation; without it a run waits after two short turns. */
  readonly talk: { readonly turns: number; readonly bytes: number } | undefined;
  readonly main: string | undefined;
}

/** @returns one figure set for each phase */
export async function* bounded(
  server: DevServer,
  url: string,
  { memoryMiB, runs, decided, talk, main }: Bounded,
): AsyncGenerator<Record<string, unknown>> {
  const directory = await mkdtemp(join(tmpdir(), 'countersign-bounded-'));
  const configFile = join(directory, 'countersign.yaml');
  const config = benchConfig(url, talk && { talk: talkScript(talk.turns, talk.bytes) });
  await writeFile(configFile, stringify({ ...config, worker: { memoryMiB } }));
  const { child, line } = await startWorkerProcess(configFile, server.address, main);
  const client = new Client({ connection: await connectClient({ address: server.address }) });
  const countersign = new Countersign({ client, deadlineMs: 300_000 });
  try {
    const pid = child.pid ?? 0;
    const rss = (phase: string, since: number) => ({
      phase,
      seconds: Math.round((performance.now() - since) / 1_000),
      peakMiB: Math.round(rssOf(pid, 'VmHWM') / MIB),
      rssMiB: Math.round(rssOf(pid) / MIB),
      ended: child.exitCode ?? child.signalCode ?? undefined,
      load: loadavg()[0],
    });
    const { maxCachedWorkflows, maxConcurrentWorkflowTaskExecutions, maxConcurrentActivities, workflowHeapMiB } =
      // Sound: the log is one JSON object a line.
      JSON.parse(line) as Record<string, unknown>;
    yield { maxCachedWorkflows, maxConcurrentWorkflowTaskExecutions, maxConcurrentActivities, workflowHeapMiB };
    yield rss('before', performance.now());
    const ids = Array.from({ length: runs }, (_, index) => `bounded-${memoryMiB}-${index}`);
    let at = performance.now();
    await each(ids, async (runId) => {
      await countersign.startRun({ runId, taskQueue: BENCH_QUEUE, spec: spec(talk === undefined ? 'bench' : 'talk') });
    });
    for (let waiting = 0; waiting < runs && child.exitCode === null; await later(500))
      waiting = (await client.workflow.count('CountersignPending > 0')).count;
    yield rss('all wait', at);
    at = performance.now();
    await later(IDLE_MS);
    yield rss('idle', at);
    at = performance.now();
    await each(ids.slice(0, decided), async (runId) => {
      const run = countersign.run(runId);
      const request = (await run.requests()).find(({ status }) => status === 'open');
      // Calls that a loaded machine has lost ask something else.
      if (request === undefined || request.about !== undefined) return;
      const { callId, digest, runId: runIdOfRequest } = request;
      await run.decide({
        kind: 'approve',
        decisionId: `${runId}-1`,
        callId,
        digest,
        runId: runIdOfRequest,
        approver: { id: 'bench' },
      });
    });
    yield rss('decided', at);
    at = performance.now();
    await later(IDLE_MS);
    yield rss('idle', at);
  } finally {
    await end(child);
    await client.connection.close();
    await rm(directory, { recursive: true, force: true });
  }
}

async function each(ids: readonly string[], act: (id: string) => Promise<void>): Promise<void> {
  const left = [...ids];
  const some = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await act(id);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, some));
}

async function later(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

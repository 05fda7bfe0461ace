/** One lane under load: starts runs, decides what waits, and measures. */
import type { ChildProcess } from 'node:child_process';
import { Client } from '@temporalio/client';
import { Countersign } from '../client/index.ts';
import { connectClient } from '../workers/connection.ts';
import type { DevServer } from '../workers/dev-server.ts';
import { cpuMsOf, endOf, forkBench, heard } from './process.ts';
import { BENCH_QUEUE, CALLS, type FromWorker, GATED_STEP, OPEN_REQUESTS } from './workload.ts';

/** Models whose runs wait. */
export type Waiting = 'bench' | 'wide' | 'talk';

/** `steps`: this service with its stretches switched off. */
export type LaneName = 'raw' | 'countersign' | 'steps';

export interface Pass {
  readonly runsPerSecond: number;
  readonly p50Ms: number;
  readonly cpuMsPerRun: number;
  /** From sending the decision to the call's arrival at the tool server. */
  readonly approvalToToolMs: number;
  /** Runs whose calls did not arrive once each and in order. */
  readonly wrong: number;
}

/** A call, as the tool server saw it. */
export interface Arrived {
  readonly run: string;
  readonly step: number;
  readonly atMs: number;
}

export class Lane {
  readonly name: LaneName;
  readonly client: Client;
  readonly bundleBytes: number;
  readonly #worker: ChildProcess;
  readonly #server: DevServer;
  readonly #toolUrl: string;
  /** How the worker ended. One listener for all runs that wait. */
  readonly #ended: Promise<string>;
  readonly #waiting = new Map<string, () => void>();
  #started = 0;

  private constructor(
    name: LaneName,
    worker: ChildProcess,
    server: DevServer,
    client: Client,
    toolUrl: string,
    bundleBytes: number,
  ) {
    this.name = name;
    this.#worker = worker;
    this.#ended = endOf(worker);
    this.#server = server;
    this.client = client;
    this.#toolUrl = toolUrl;
    this.bundleBytes = bundleBytes;
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'waits') this.#waiting.get(message.run)?.();
    });
  }

  static async open(name: LaneName, server: DevServer, toolUrl: string, directory: string): Promise<Lane> {
    const worker = forkBench('./lane-worker.ts', [name, server.address, toolUrl, directory]);
    const { bundleBytes } = await heard<FromWorker, 'ready'>(worker, 'ready');
    const client = new Client({ connection: await connectClient({ address: server.address }) });
    return new Lane(name, worker, server, client, toolUrl, bundleBytes);
  }

  get workerPid(): number {
    return this.#worker.pid ?? 0;
  }

  async usage(): Promise<Extract<FromWorker, { kind: 'usage' }>> {
    const answer = heard<FromWorker, 'usage'>(this.#worker, 'usage');
    this.#worker.send({ kind: 'usage' });
    return await answer;
  }

  get lastRunId(): string {
    return `${this.name}-${process.pid}-${this.#started}`;
  }

  /** Starts a run and returns when it waits for its decision, or for its decisions. */
  async startWaiting(model: Waiting = 'bench'): Promise<string> {
    this.#started += 1;
    const runId = this.lastRunId;
    const waits = new Promise<void>((resolve) => this.#waiting.set(runId, resolve));
    if (this.name === 'raw')
      await this.client.workflow.start('rawRun', { workflowId: runId, taskQueue: BENCH_QUEUE, args: [runId] });
    else await this.#service.startRun({ runId, taskQueue: BENCH_QUEUE, spec: spec(model) });
    const ended = await Promise.race([waits, this.#ended]);
    this.#waiting.delete(runId);
    if (ended !== undefined) throw new Error(`the worker ended (${ended}) before: ${runId} waits`);
    return runId;
  }

  async #decide(runId: string): Promise<number> {
    if (this.name === 'raw') {
      const at = nowMs();
      await this.client.workflow.getHandle(runId).executeUpdate('decide', { args: [{ decision: 'approve' }] });
      return at;
    }
    const run = this.#service.run(runId);
    for (;;) {
      const request = (await run.requests()).find(({ status }) => status === 'open');
      if (request === undefined) continue;
      const at = nowMs();
      const { callId, digest } = request;
      await run.decide({
        kind: 'approve',
        decisionId: `${runId}-1`,
        callId,
        digest,
        runId: request.runId,
        approver: { id: 'bench' },
      });
      return at;
    }
  }

  async pass(runs: number, concurrency: number): Promise<Pass> {
    await this.#calls();
    const before = { worker: (await this.usage()).cpuMs, server: cpuMsOf(this.#server.pid) };
    const times: number[] = [];
    const decidedAt = new Map<string, number>();
    let left = runs;
    const began = nowMs();
    const one = async (): Promise<void> => {
      for (; left > 0;) {
        left -= 1;
        const start = nowMs();
        const runId = await this.startWaiting();
        decidedAt.set(runId, await this.#decide(runId));
        await this.client.workflow.getHandle(runId).result();
        times.push(nowMs() - start);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, one));
    const tookMs = nowMs() - began;
    const cpuMs = (await this.usage()).cpuMs - before.worker + cpuMsOf(this.#server.pid) - before.server;
    const calls = await this.#calls();
    return {
      runsPerSecond: (runs * 1_000) / tookMs,
      p50Ms: median(times),
      cpuMsPerRun: cpuMs / runs,
      approvalToToolMs: median(gatedDelays(calls, decidedAt)),
      wrong: wrongRuns(calls, [...decidedAt.keys()]),
    };
  }

  async #calls(): Promise<readonly Arrived[]> {
    const answer = await fetch(this.#toolUrl.replace('/mcp', '/calls'));
    // Sound: our own server wrote it.
    return (await answer.json()) as Arrived[];
  }

  get #service(): Countersign {
    return new Countersign({ client: this.client, deadlineMs: 60_000 });
  }

  async close(): Promise<void> {
    if (this.#worker.connected) this.#worker.send({ kind: 'stop' });
    await this.#ended;
    await this.client.connection.close();
  }
}

export function spec(model: string) {
  return {
    agent: { name: 'bench', model },
    input: 'go',
    initiator: { id: 'bench' },
    servers: [{ name: 'echo' }],
    // What one turn may carry bounds calls and results together.
    limits: {
      callsPerTurn: OPEN_REQUESTS,
      resultBytes: 32_768,
      // A talk is kept whole.
      ...(model === 'talk' ? { turnsPerExecution: 100 } : {}),
    },
  };
}

/** Counts runs whose calls did not arrive once each and in order. */
export function wrongRuns(calls: readonly Arrived[], runIds: readonly string[]): number {
  const byRun = new Map<string, number[]>(runIds.map((runId) => [runId, []]));
  for (const { run, step } of calls) byRun.set(run, [...(byRun.get(run) ?? []), step]);
  return [...byRun.values()].filter(
    (steps) => steps.length !== CALLS || steps.some((step, index) => step !== index + 1),
  ).length;
}

function gatedDelays(calls: readonly Arrived[], decidedAt: ReadonlyMap<string, number>): number[] {
  return calls
    .filter(({ step }) => step === GATED_STEP)
    .map(({ run, atMs }) => atMs - (decidedAt.get(run) ?? Number.NaN));
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

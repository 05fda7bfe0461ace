/**
 * One worker process of the bench, in one of three lanes: `countersign` runs the service, `steps` the service without
 * stretches, `raw` the minimal workflow with the same model and the same MCP adapter. It tells its parent when a run
 * waits, and what it has used when asked.
 */
import { fileURLToPath } from 'node:url';
import { BroadcastChannel } from 'node:worker_threads';
import { activityInfo } from '@temporalio/activity';
import { Client } from '@temporalio/client';
import {
  bundleWorkflowCode,
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import { createMemoryStore } from '../activities/artifacts/memory.ts';
import { createScriptedModel } from '../activities/models/scripted.ts';
import { createMcpToolServer } from '../activities/mcp/mcp-server.ts';
import { Config } from '../contracts/schemas/config.ts';
import type { ModelStepResult } from '../contracts/wire/run.ts';
import { bundleWorkflows } from '../workers/bundle.ts';
import { createTracing } from '../workers/tracing.ts';
import { connectClient } from '../workers/connection.ts';
import { createDataConverter, createWorkerDataConverter } from '../workers/codec.ts';
import { openArtifacts, openEgress, runSideActivities, toolSideActivities } from '../workers/composition.ts';
import { limitHeap, memoryOf, sizesFor } from '../workers/memory.ts';
import {
  BENCH_QUEUE,
  benchConfig,
  benchScript,
  type FromWorker,
  isGated,
  longScript,
  talkScript,
  toolOf,
  type ToWorker,
  wideScript,
  WITHOUT_STRETCHES,
} from './workload.ts';

const [lane = '', address = '', toolUrl = '', directory = ''] = process.argv.slice(2);
/** A full collection of a gigabyte takes a second or two. */
const THREADS_ANSWER_MS = 5_000;
const collect: unknown = Reflect.get(globalThis, 'gc');

Runtime.install({ logger: new DefaultLogger('ERROR') });
limitHeap(sizesFor(memoryOf({})).workflowHeapMiB);
const connection = await NativeConnection.connect({ address });
const own = lane === 'raw' ? await rawOptions() : await serviceOptions();
const worker = await Worker.create({
  connection,
  namespace: 'default',
  taskQueue: BENCH_QUEUE,
  maxCachedWorkflows: 2_000,
  maxConcurrentActivityTaskExecutions: 200,
  ...own.options,
});
const running = worker.run();
process.on('message', (message: ToWorker) => {
  if (message.kind === 'stop') return worker.shutdown();
  void heapsOfThreads().then((heaps) => {
    if (typeof collect === 'function') Reflect.apply(collect, undefined, []);
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed } = process.memoryUsage();
    tell({
      kind: 'usage',
      cpuMs: (user + system) / 1_000,
      rssBytes: rss,
      mainHeapBytes: heapUsed,
      // The other thread is the loader's.
      workflowHeapBytes: Math.max(...heaps),
    });
  });
});
tell({ kind: 'ready', bundleBytes: own.bundleBytes });
await running;
process.exit(0);

interface Lane {
  readonly options: Partial<WorkerOptions>;
  readonly bundleBytes: number;
}

async function serviceOptions(): Promise<Lane> {
  const scripts = { long: longScript(60), wide: wideScript(), talk: talkScript(50, 20_480) };
  const switched = lane === 'steps' ? WITHOUT_STRETCHES : {};
  const config = Config.parse({ ...benchConfig(toolUrl, scripts), ...switched });
  const loaded = { config, path: undefined, baseDirectory: directory };
  const bundle = await bundleWorkflows();
  const client = new Client({
    connection: await connectClient({ address }),
    dataConverter: createDataConverter(config),
  });
  const dataConverter = createWorkerDataConverter(config);
  const artifacts = await openArtifacts(loaded);
  const toolSide = await toolSideActivities(loaded, artifacts, client);
  const runSide = await runSideActivities(loaded, artifacts, client, undefined, toolSide);
  const { prepareRun, modelStep, stretch } = runSide;
  const telling: Pick<typeof runSide, 'prepareRun' | 'modelStep' | 'stretch'> = {
    prepareRun: async (...input) =>
      tellingIfAsked(await prepareRun(...input), ({ turns = [] }) => turns.map(({ step }) => step)),
    modelStep: async (input) => tellingIfAsked(await modelStep(input), (step) => [step]),
    stretch: async (input) => tellingIfAsked(await stretch(input), ({ turns }) => turns.map(({ step }) => step)),
  };
  const activities = { ...runSide, ...toolSide, ...telling };
  return {
    bundleBytes: bundle.code.length,
    options: { workflowBundle: { code: bundle.code }, activities, dataConverter, plugins: [createTracing('off')] },
  };
}

/** Tells that the run of this activity waits, if people are asked about what its model proposed. */
function tellingIfAsked<Answer>(answer: Answer, stepsOf: (answer: Answer) => readonly ModelStepResult[]): Answer {
  const asks = stepsOf(answer).some(
    ({ judged }) => judged?.judgements.some(({ verdict }) => verdict.kind === 'ask') === true,
  );
  const run = activityInfo().workflowExecution?.workflowId;
  if (asks && run !== undefined) tell({ kind: 'waits', run });
  return answer;
}

async function rawOptions(): Promise<Lane> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('./raw-workflow.ts', import.meta.url)),
    logger: new DefaultLogger('ERROR'),
  });
  const model = createScriptedModel(benchScript());
  const server = createMcpToolServer({
    artifacts: createMemoryStore(),
    egress: openEgress(Config.parse({ egress: { allowLoopback: true }, servers: { echo: { url: toolUrl } } })),
  });
  const target = { name: 'echo', url: toolUrl, headers: {}, protocol: 'legacy' as const, secrets: [] };
  const { tools } = await server.list(target, AbortSignal.timeout(10_000));
  const activities = {
    async model(run: string, done: number) {
      const turn = done + 1;
      await model.step({
        turn,
        messages: [],
        tools: [],
        signal: new AbortController().signal,
      });
      const tool = toolOf(turn);
      return tool === undefined ? { text: 'end' } : { tool, gated: isGated(turn), arguments: { run, step: turn } };
    },
    async notifyApprover(run: string) {
      tell({ kind: 'waits', run });
    },
    async callTool(tool: string, given: { readonly run: string; readonly step: number }) {
      const definition = tools.find(({ name }) => name === tool);
      if (definition === undefined) throw new Error(`no tool ${tool}`);
      const call = {
        definition,
        arguments: { ...given },
        idempotencyKey: `${given.run}/${given.step}`,
        timeoutMs: 30_000,
        resultBytes: 65_536,
      };
      return await server.call(target, { ...call, signal: new AbortController().signal, heartbeat: () => undefined });
    },
  };
  return { bundleBytes: code.length, options: { workflowBundle: { code }, activities } };
}

/** Of every other thread, after its garbage is collected (`thread-heap.mjs`), once no more of them answer. */
async function heapsOfThreads(): Promise<readonly number[]> {
  const told = new BroadcastChannel('bench-tell-heap');
  const asked = new BroadcastChannel('bench-ask-heap');
  const heaps = [0];
  told.onmessage = (event: unknown) => {
    // Sound: our own file posts it, as the data of a message.
    heaps.push((event as { data: number }).data);
  };
  asked.postMessage('');
  await new Promise((resolve) => setTimeout(resolve, THREADS_ANSWER_MS));
  told.close();
  asked.close();
  return heaps;
}

function tell(message: FromWorker): void {
  process.send?.(message);
}

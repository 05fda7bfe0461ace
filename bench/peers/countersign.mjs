// This service, as built into dist/ and wired like its own worker. Lane `steps`: stretches are switched off.
// Worker, starter and approver share this process, as in the other peers. In the configuration `repeatable` matters
// most: the operator says which tools may be called again, and only such calls go into a stretch.
import { execFileSync } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import activity from '@temporalio/activity';
import temporal from '@temporalio/client';
import worker from '@temporalio/worker';
import { CALLS, END, GATED_STEP, TEXT } from './agent.mjs';
import { ADDRESS, DATABASES, historyOf, serverPid, until } from './engine.mjs';

/** The wait for a request is no part of what is timed. */
const ASKS_EVERY_MS = 10;
const QUEUE = `peers-${process.pid}`;
const STEPS = Array.from({ length: CALLS }, (_, index) => index + 1);

/** @param {string} toolUrl @param {object} execution */
const configuration = (toolUrl, execution) => ({
  taskQueue: QUEUE,
  egress: { allowLoopback: true },
  servers: {
    echo: {
      url: toolUrl,
      trusted: true,
      credentials: { kind: 'none' },
      protocol: 'legacy',
      repeatable: ['echo'],
    },
  },
  policy: { strategy: 'annotations' },
  models: { bench: { provider: 'scripted', script: { steps: [...STEPS.map(scriptedStep), { text: END }] } } },
  worker: { maxCachedWorkflows: 2_000, maxConcurrentActivities: 200 },
  ...execution,
});

/** The script cannot name its run; the tool server reads that from the idempotency key of each call. @param {number} step */
const scriptedStep = (step) => ({
  calls: [{ tool: step === GATED_STEP ? 'echo/write' : 'echo/echo', arguments: { run: '', step, text: TEXT } }],
});

/** @param {{ toolUrl: string, lane: string, root: string, versionOf: (name: string) => string }} place */
export async function open({ toolUrl, lane, root, versionOf }) {
  /** @param {string} path */
  const built = async (path) => await import(new URL(`dist/${path}`, root).href);
  const { Config } = await built('contracts/schemas/config.js');
  const { bundleWorkflows, readBuiltBundle } = await built('workers/bundle.js');
  const { createDataConverter } = await built('workers/codec.js');
  const { openArtifacts, runSideActivities, toolSideActivities } = await built('workers/composition.js');
  const { connectClient } = await built('workers/connection.js');
  const { limitHeap, memoryOf, sizesFor } = await built('workers/memory.js');
  const { assertSetUp, setUpNamespace } = await built('workers/setup.js');
  const { commonOptions } = await built('workers/worker.js');
  const { replaceThreads } = await built('workers/workflow-threads.js');
  const { Countersign } = await built('client/index.js');

  worker.Runtime.install({ logger: new worker.DefaultLogger('ERROR') });
  const switched = lane === 'steps' ? { execution: { stretch: { turns: 0 } } } : {};
  const config = Config.parse(configuration(toolUrl, switched));
  const connection = await connectClient({ address: ADDRESS });
  await setUpNamespace(connection, 'default');
  await until(async () => await assertSetUp(connection, 'default'));
  const client = new temporal.Client({ connection, dataConverter: createDataConverter(config) });
  const loaded = { config, path: undefined, baseDirectory: await mkdtemp(join(tmpdir(), 'countersign-peers-')) };
  const artifacts = await openArtifacts(loaded);
  const { code } = (await readBuiltBundle()) ?? (await bundleWorkflows());
  const sizes = sizesFor(memoryOf({}), config.worker);
  limitHeap(sizes.workflowHeapMiB);
  /** @type {Map<string, () => void>} */
  const waiting = new Map();
  const toolSide = await toolSideActivities(loaded, artifacts, client);
  const runSide = await runSideActivities(loaded, artifacts, client, undefined, toolSide);
  const { prepareRun, modelStep, stretch } = runSide;
  /** Hears that a run waits: people are asked about what its model proposed. */
  const heard = (answer, steps) => {
    const asks = steps.some(({ judged }) => judged?.judgements.some(({ verdict }) => verdict.kind === 'ask') === true);
    if (asks) waiting.get(activity.activityInfo().workflowExecution.workflowId)?.();
    return answer;
  };
  const stepsOf = ({ turns = [] }) => turns.map(({ step }) => step);
  const activities = {
    ...runSide,
    ...toolSide,
    prepareRun: async (...input) => {
      const answer = await prepareRun(...input);
      return heard(answer, stepsOf(answer));
    },
    modelStep: async (input) => {
      const step = await modelStep(input);
      return heard(step, [step]);
    },
    stretch: async (input) => {
      const answer = await stretch(input);
      return heard(answer, stepsOf(answer));
    },
  };
  replaceThreads();
  const running = await worker.Worker.create({
    ...(await commonOptions(config, sizes)),
    connection: await worker.NativeConnection.connect({ address: ADDRESS }),
    taskQueue: QUEUE,
    workflowBundle: { code },
    activities,
  });
  // The options of a worker of ours are in place: without them the figures would be those of another program.
  if (running.options.maxCachedWorkflows !== config.worker.maxCachedWorkflows)
    throw new Error(`The worker keeps ${running.options.maxCachedWorkflows} runs: it has not the options of ours.`);
  const stopped = running.run();
  const countersign = new Countersign({ client, deadlineMs: 60_000 });
  let last = '';
  return {
    name: lane === 'steps' ? 'Countersign, stretches off' : 'Countersign',
    version: `${versionOf('countersign')} (${commitOf(root)})`,
    databases: DATABASES,
    pids: { server: serverPid() },
    /** @param {string} run @param {() => void} deciding */
    async run(run, deciding) {
      last = run;
      const told = new Promise((resolve) => waiting.set(run, () => resolve(undefined)));
      const handle = await countersign.startRun({
        runId: run,
        taskQueue: QUEUE,
        spec: {
          agent: { name: 'bench', model: 'bench' },
          input: 'go',
          initiator: { id: 'bench' },
          servers: [{ name: 'echo' }],
        },
      });
      await told;
      waiting.delete(run);
      const { callId, digest, runId } = await openRequest(handle);
      deciding();
      const decisionId = `${run}-1`;
      await handle.decide({ kind: 'approve', decisionId, callId, digest, runId, approver: { id: 'bench' } });
      return await handle.result();
    },
    details: async () => await historyOf(client, last),
    async close() {
      running.shutdown();
      await stopped;
    },
  };
}

/** @param {string} root */
function commitOf(root) {
  return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: new URL(root), encoding: 'utf8' }).trim();
}

/**
 * The run has the request as soon as it has taken the judgement in, and whoever is told of it here is told before that:
 * so the first pause comes first.
 */
async function openRequest(handle) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, ASKS_EVERY_MS));
    const request = (await handle.requests()).find(({ status }) => status === 'open');
    if (request !== undefined) return request;
  }
}

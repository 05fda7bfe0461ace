// Raw Temporal: the least that a workflow can do for this agent (bench/raw-workflow.ts), with the SDK of this project.
// Worker, starter and approver share this process, as in the other peers. Lane `stretch`: one activity goes on until
// somebody must be asked. Lane `recorded`: the same, with what durability and people ask of the engine.
import { fileURLToPath } from 'node:url';
import activity from '@temporalio/activity';
import client from '@temporalio/client';
import worker from '@temporalio/worker';
import { connectTools, modelSays } from './agent.mjs';
import { ADDRESS, DATABASES, historyOf, serverPid, until } from './engine.mjs';

/** Name and workflow of each lane. */
const LANES = {
  '': ['raw Temporal', 'rawRun'],
  stretch: ['raw Temporal, stretches', 'rawStretches'],
  recorded: ['raw Temporal, stretches on record', 'rawRecorded'],
};

/**
 * @param {{ toolUrl: string, lane: string, root: string, versionOf: (name: string) => string }} place
 * @returns {Promise<import('./load.mjs').Peer>}
 */
export async function open({ toolUrl, lane, root, versionOf }) {
  worker.Runtime.install({ logger: new worker.DefaultLogger('ERROR') });
  const tools = await connectTools(toolUrl);
  const own = new client.Client({ connection: await client.Connection.connect({ address: ADDRESS }) });
  const taskQueue = `peers-${process.pid}`;
  if (lane === 'recorded') {
    // Its attributes are those of this service.
    const { assertSetUp, setUpNamespace } = await import(new URL('dist/workers/setup.js', root).href);
    await setUpNamespace(own.connection, 'default');
    await until(async () => await assertSetUp(own.connection, 'default'));
  }
  /** @type {Map<string, () => void>} */
  const waiting = new Map();
  const notifyApprover = async (run) => waiting.get(run)?.();
  const callTool = async (tool, given) => await tools.call(tool, given);
  const [name, type] = LANES[lane];
  const goOn = async (run, before, record = async () => {}) => {
    for (let done = before; ; done += 1) {
      const said = modelSays(run, done);
      if (said.tool === undefined) return { done, said };
      if (said.gated) {
        await notifyApprover(run);
        return { done, said };
      }
      await record(said);
      await callTool(said.tool, said.arguments);
    }
  };
  const workflowsPath = fileURLToPath(new URL('bench/raw-workflow.ts', root));
  const running = await worker.Worker.create({
    connection: await worker.NativeConnection.connect({ address: ADDRESS }),
    taskQueue,
    workflowsPath,
    activities: {
      model: async (run, done) => modelSays(run, done),
      notifyApprover,
      callTool,
      stretch: async (run, before) => await goOn(run, before),
      async recorded(run, before) {
        const { taskToken } = activity.activityInfo();
        return await goOn(run, before, async (said) => await own.activity.heartbeat(taskToken, said));
      },
    },
    maxCachedWorkflows: 2_000,
    maxConcurrentActivityTaskExecutions: 200,
  });
  const stopped = running.run();
  let last = '';
  return {
    name,
    version: versionOf('@temporalio/worker'),
    databases: DATABASES,
    pids: { server: serverPid() },
    async run(run, deciding) {
      last = run;
      const told = new Promise((resolve) => waiting.set(run, () => resolve(undefined)));
      const handle = await own.workflow.start(type, { workflowId: run, taskQueue, args: [run] });
      await told;
      waiting.delete(run);
      deciding();
      await handle.executeUpdate('decide', { args: [{ decision: 'approve' }] });
      return await handle.result();
    },
    details: async () => await historyOf(own, last),
    async close() {
      running.shutdown();
      await stopped;
    },
  };
}

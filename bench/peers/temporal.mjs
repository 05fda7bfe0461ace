// Raw Temporal: the least that a workflow can do for this agent (bench/raw-workflow.ts), with the SDK of this project.
// Worker, starter and approver share this process, as in the other peers. Lane `stretch`: one activity goes on until
// somebody must be asked.
import { fileURLToPath } from 'node:url';
import client from '@temporalio/client';
import worker from '@temporalio/worker';
import { connectTools, modelSays } from './agent.mjs';
import { ADDRESS, DATABASES, historyOf, serverPid } from './engine.mjs';

/**
 * @param {{ toolUrl: string, lane: string, root: string, versionOf: (name: string) => string }} place
 * @returns {Promise<import('./load.mjs').Peer>}
 */
export async function open({ toolUrl, lane, root, versionOf }) {
  worker.Runtime.install({ logger: new worker.DefaultLogger('ERROR') });
  const tools = await connectTools(toolUrl);
  const own = new client.Client({ connection: await client.Connection.connect({ address: ADDRESS }) });
  const taskQueue = `peers-${process.pid}`;
  /** @type {Map<string, () => void>} */
  const waiting = new Map();
  const notifyApprover = async (run) => waiting.get(run)?.();
  const callTool = async (tool, given) => await tools.call(tool, given);
  const workflowsPath = fileURLToPath(new URL('bench/raw-workflow.ts', root));
  const running = await worker.Worker.create({
    connection: await worker.NativeConnection.connect({ address: ADDRESS }),
    taskQueue,
    workflowsPath,
    activities: {
      model: async (run, done) => modelSays(run, done),
      notifyApprover,
      callTool,
      async stretch(run, before) {
        for (let done = before; ; done += 1) {
          const said = modelSays(run, done);
          if (said.tool === undefined) return { done, said };
          if (said.gated) {
            await notifyApprover(run);
            return { done, said };
          }
          await callTool(said.tool, said.arguments);
        }
      },
    },
    maxCachedWorkflows: 2_000,
    maxConcurrentActivityTaskExecutions: 200,
  });
  const stopped = running.run();
  let last = '';
  return {
    name: lane === 'stretch' ? 'raw Temporal, stretches' : 'raw Temporal',
    version: versionOf('@temporalio/worker'),
    databases: DATABASES,
    pids: { server: serverPid() },
    async run(run, deciding) {
      last = run;
      const told = new Promise((resolve) => waiting.set(run, () => resolve(undefined)));
      const type = lane === 'stretch' ? 'rawStretches' : 'rawRun';
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

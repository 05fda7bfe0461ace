// DBOS Transact: a workflow whose model turns and tool calls are steps, on its own PostgreSQL.
// The gate is `setEvent` and `recv`, with a topic for each call: with one topic for all, a second copy of an approval
// lets the next call run.
import { DBOS } from '@dbos-inc/dbos-sdk';
import { connectTools, modelSays } from './agent.mjs';
import { freshDatabase, POOL } from './postgres.mjs';

const DATABASE = 'peers_dbos';
const WAIT_SECONDS = 600;
const RETRIED = { retriesAllowed: true, maxAttempts: 3 };

/** @param {{ toolUrl: string, versionOf: (name: string) => string }} place @returns {Promise<import('./load.mjs').Peer>} */
export async function open({ toolUrl, versionOf }) {
  const tools = await connectTools(toolUrl);
  DBOS.setConfig({
    name: 'peers',
    systemDatabaseUrl: await freshDatabase(DATABASE),
    systemDatabasePoolSize: POOL,
    logLevel: 'error',
    enableOTLP: false,
  });
  const agent = DBOS.registerWorkflow(
    async (run) => {
      for (let done = 0; ; done += 1) {
        const said = await DBOS.runStep(async () => modelSays(run, done), { name: 'model', ...RETRIED });
        if (said.tool === undefined) return said.text;
        if (said.gated) {
          await DBOS.setEvent('asked', { step: done, ...said });
          if ((await DBOS.recv(`decision-${done}`, WAIT_SECONDS)) !== 'approve') return 'not approved';
        }
        await DBOS.runStep(async () => await tools.call(said.tool, said.arguments), { name: said.tool, ...RETRIED });
      }
    },
    { name: 'agent' },
  );
  await DBOS.launch();
  return {
    name: 'DBOS Transact',
    version: versionOf('@dbos-inc/dbos-sdk'),
    databases: [DATABASE],
    async run(run, deciding) {
      const handle = await DBOS.startWorkflow(agent, { workflowID: run })(run);
      const asked = await DBOS.getEvent(run, 'asked', WAIT_SECONDS);
      if (asked === null) throw new Error(`${run} asked nobody`);
      deciding();
      await DBOS.send(run, 'approve', `decision-${asked.step}`, `${run}-${asked.step}`);
      return await handle.getResult();
    },
    close: async () => await DBOS.shutdown(),
  };
}

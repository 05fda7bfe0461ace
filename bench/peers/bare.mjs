// No engine, no state, nobody asked: what the five calls cost by themselves. The floor for every peer.
import { connectTools, modelSays } from './agent.mjs';

/** @param {{ toolUrl: string }} place @returns {Promise<import('./load.mjs').Peer>} */
export async function open({ toolUrl }) {
  const tools = await connectTools(toolUrl);
  return {
    name: 'bare calls',
    version: '',
    databases: [],
    undecided: true,
    async run(run) {
      for (let done = 0; ; done += 1) {
        const said = modelSays(run, done);
        if (said.tool === undefined) return said.text;
        await tools.call(said.tool, said.arguments);
      }
    },
    close: async () => {},
  };
}

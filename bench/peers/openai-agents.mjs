// OpenAI Agents: `needsApproval` interrupts a run, and the application keeps its `RunState`, here in one table.
// Between interruptions nothing is written: a crash loses all since then, and its calls are made again.
import { Agent, Runner, RunState, setTracingDisabled, tool, Usage } from '@openai/agents';
import pg from 'pg';
import { z } from 'zod';
import { connectTools, modelSays } from './agent.mjs';
import { freshDatabase, POOL } from './postgres.mjs';

const DATABASE = 'peers_openai_agents';
const MAX_TURNS = 20;
const parameters = z.object({ run: z.string(), step: z.number().int(), text: z.string() });

const scripted = {
  async getResponse({ input }) {
    const items = typeof input === 'string' ? [{ content: input }] : input;
    const done = items.filter(({ type }) => type === 'function_call_result').length;
    const said = modelSays(String(items[0].content), done);
    const output =
      said.tool === undefined
        ? { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: said.text }] }
        : { type: 'function_call', callId: `call-${done}`, name: said.tool, arguments: JSON.stringify(said.arguments) };
    return { usage: new Usage(), output: [{ status: 'completed', ...output }] };
  },
  async *getStreamedResponse() {
    yield* [];
    throw new Error('the comparison does not stream');
  },
};

/** @param {{ toolUrl: string, versionOf: (name: string) => string }} place @returns {Promise<import('./load.mjs').Peer>} */
export async function open({ toolUrl, versionOf }) {
  setTracingDisabled(true);
  const tools = await connectTools(toolUrl);
  const db = new pg.Pool({ connectionString: await freshDatabase(DATABASE), max: POOL });
  await db.query('CREATE TABLE run (id text PRIMARY KEY, status text NOT NULL, state text, answer text)');
  const named = (name, needsApproval) =>
    tool({
      name,
      description: name,
      parameters,
      needsApproval,
      errorFunction: null,
      execute: async (given) => await tools.call(name, given),
    });
  const agent = new Agent({
    name: 'bench',
    instructions: 'Call the tools.',
    model: scripted,
    tools: [named('echo', false), named('write', true)],
  });
  const runner = new Runner({ tracingDisabled: true });
  return {
    name: 'OpenAI Agents',
    version: versionOf('@openai/agents'),
    databases: [DATABASE],
    async run(run, deciding) {
      await db.query("INSERT INTO run (id, status) VALUES ($1, 'runs')", [run]);
      const paused = await runner.run(agent, run, { maxTurns: MAX_TURNS });
      if (paused.interruptions.length === 0) throw new Error(`${run} asked nobody`);
      await db.query("UPDATE run SET status = 'waits', state = $2 WHERE id = $1", [run, paused.state.toString()]);
      deciding();
      // The guard against a second copy of the approval is the application's: the library has none.
      const take = "UPDATE run SET status = 'goes on' WHERE id = $1 AND status = 'waits' RETURNING state";
      const { rows } = await db.query(take, [run]);
      const state = await RunState.fromString(agent, rows[0].state);
      for (const interruption of state.getInterruptions()) state.approve(interruption);
      const ended = await runner.run(agent, state, { maxTurns: MAX_TURNS });
      await db.query("UPDATE run SET status = 'ended', answer = $2 WHERE id = $1", [run, ended.finalOutput]);
      return ended.finalOutput;
    },
    close: async () => await db.end(),
  };
}

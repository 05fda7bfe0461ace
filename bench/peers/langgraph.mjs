// LangChain's agent on LangGraph, with its human-in-the-loop middleware and the PostgreSQL checkpointer, as documented.
// There is no worker: the process that brings the decision runs the rest. Lane `sync` commits each checkpoint before
// the next step starts.
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { Command } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import { createAgent, humanInTheLoopMiddleware } from 'langchain';
import pg from 'pg';
import { z } from 'zod';
import { connectTools, modelSays } from './agent.mjs';
import { freshDatabase, POOL } from './postgres.mjs';

const DATABASE = 'peers_langgraph';
const parameters = z.object({ run: z.string(), step: z.number().int(), text: z.string() });

class ScriptedChat extends BaseChatModel {
  _llmType() {
    return 'scripted';
  }

  bindTools() {
    return this;
  }

  /** @param {readonly import('@langchain/core/messages').BaseMessage[]} messages */
  async _generate(messages) {
    const run = String(messages.find((message) => HumanMessage.isInstance(message))?.content);
    const done = messages.filter((message) => ToolMessage.isInstance(message)).length;
    const said = modelSays(run, done);
    const calls = said.tool === undefined ? [] : [{ id: `call-${done}`, name: said.tool, args: said.arguments ?? {} }];
    const message = new AIMessage({ content: said.text ?? '', tool_calls: calls });
    return { generations: [{ text: said.text ?? '', message }] };
  }
}

/**
 * @param {{ toolUrl: string, lane: string, versionOf: (name: string) => string }} place
 * @returns {Promise<import('./load.mjs').Peer>}
 */
export async function open({ toolUrl, lane, versionOf }) {
  process.env['LANGSMITH_TRACING'] = 'false';
  const durability = lane === 'sync' ? 'sync' : 'async';
  const tools = await connectTools(toolUrl);
  const pool = new pg.Pool({ connectionString: await freshDatabase(DATABASE), max: POOL });
  const checkpointer = new PostgresSaver(pool);
  await checkpointer.setup();
  const named = (name) =>
    tool(async (given) => await tools.call(name, given), { name, description: name, schema: parameters });
  const agent = createAgent({
    model: new ScriptedChat({}),
    tools: [named('echo'), named('write')],
    middleware: [humanInTheLoopMiddleware({ interruptOn: { write: { allowedDecisions: ['approve', 'reject'] } } })],
    checkpointer,
  });
  return {
    name: `LangGraph, human in the loop, ${durability}`,
    version: versionOf('@langchain/langgraph'),
    databases: [DATABASE],
    async run(run, deciding) {
      const config = { configurable: { thread_id: run }, durability, recursionLimit: 60 };
      const paused = await agent.invoke({ messages: [new HumanMessage(run)] }, config);
      if (!paused.__interrupt__?.length) throw new Error(`${run} asked nobody`);
      deciding();
      const ended = await agent.invoke(new Command({ resume: { decisions: [{ type: 'approve' }] } }), config);
      return ended.messages.at(-1)?.content;
    },
    close: async () => await pool.end(),
  };
}

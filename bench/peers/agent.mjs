// The agent that every peer runs: six turns of a scripted model, five tool calls one after the other, the third behind
// a decision.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export const CALLS = 5;
export const GATED_STEP = 3;
export const END = 'end';
/** What a call carries, and what the tool server answers with. */
export const TEXT = 'payload of one step. '.repeat(8);

/**
 * @typedef {object} Said
 * @property {string} [text] the final answer
 * @property {'echo' | 'write'} [tool]
 * @property {boolean} [gated] needs a decision
 * @property {{ run: string, step: number, text: string }} [arguments]
 */

/**
 * What the model says after so many finished calls: at once, and always the same.
 * @param {string} run
 * @param {number} done
 * @returns {Said}
 */
export function modelSays(run, done) {
  const step = done + 1;
  if (step > CALLS) return { text: END };
  const gated = step === GATED_STEP;
  return { tool: gated ? 'write' : 'echo', gated, arguments: { run, step, text: TEXT } };
}

/** One session for the whole process, as a peer's own adapter would keep it. @param {string} url */
export async function connectTools(url) {
  const client = new Client({ name: 'bench-peers', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return {
    /** @param {string} tool @param {object} given @returns {Promise<string>} */
    async call(tool, given) {
      const { isError, content } = await client.callTool({ name: tool, arguments: { ...given } });
      const text = Array.isArray(content) ? String(content[0]?.text) : '';
      if (isError === true) throw new Error(text);
      return text;
    },
  };
}

/** A scripted MCP server answers as its functions say, has people asked, and keeps what it was called with. */
import { afterEach, expect, test } from '@jest/globals';
import {
  asking,
  type ScriptedServer,
  type ScriptedTool,
  startScriptedServer,
} from '../../../testing/scripted-server.ts';

let server: ScriptedServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

async function call(tool: ScriptedTool, params: object = {}, headers: Readonly<Record<string, string>> = {}) {
  server ??= await startScriptedServer({ act: tool });
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'act', ...params } }),
  });
  // Sound: the tests look at what they use of it.
  return ((await response.json()) as { result: Record<string, unknown> }).result;
}

const SEAT = { message: 'Which seat?', fields: { seat: { type: 'string' } }, required: ['seat'] };
const ASKS: ScriptedTool = {
  answer: (_args, { answers }) =>
    answers === undefined ? asking({ seat: SEAT }) : `${answers['seat']?.action} ${JSON.stringify(answers['seat'])}`,
};

test('a tool that asks is answered with a form, and is called again with what people said', async () => {
  expect(await call(ASKS)).toEqual({
    resultType: 'input_required',
    inputRequests: {
      seat: {
        method: 'elicitation/create',
        params: {
          mode: 'form',
          message: 'Which seat?',
          requestedSchema: { type: 'object', properties: { seat: { type: 'string' } }, required: ['seat'] },
        },
      },
    },
  });
  const inputResponses = { seat: { action: 'accept', content: { seat: 'aisle' } } };
  expect(await call(ASKS, { inputResponses })).toMatchObject({
    resultType: 'complete',
    content: [{ type: 'text', text: expect.stringContaining('accept {') }],
  });
  expect(server?.calls.map(({ answers }) => answers)).toEqual([undefined, inputResponses]);
});

test('a tool knows the token of its call', async () => {
  const tool: ScriptedTool = { answer: (_args, { authorization }) => authorization ?? 'nobody' };
  expect(await call(tool)).toMatchObject({ content: [{ text: 'nobody' }] });
  expect(await call(tool, {}, { authorization: 'Bearer x' })).toMatchObject({ content: [{ text: 'Bearer x' }] });
});

test('what a tool throws is its own error', async () => {
  const tool: ScriptedTool = {
    answer: () => {
      throw new Error('out of paper');
    },
  };
  expect(await call(tool)).toMatchObject({ isError: true, content: [{ text: 'out of paper' }] });
});

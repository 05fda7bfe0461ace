/** The model of single calls proposes what its starter states, once, and answers with the outcome. */
import { expect, test } from '@jest/globals';
import { CALLER } from '../../../../activities/models/caller.ts';
import type { ModelRequest } from '../../../../activities/models/port.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { CallSpec } from '../../../../contracts/schemas/run-spec.ts';
import { CallAnswer } from '../../../../contracts/schemas/run-state.ts';
import { runSpecOf } from '../../../../domain/run/single-call.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';

const call = CallSpec.parse({
  server: { name: 'bank', url: 'https://bank.example/mcp' },
  tool: 'pay/now',
  arguments: { amount: 1, to: '"}] {' },
  initiator: { id: 'ann' },
});
const spec = runSpecOf(call);
// Sound: a single call has one text as input.
const opening: Message = { role: 'user', text: spec.input as string };

function request(messages: readonly Message[], over: Partial<ModelRequest> = {}): ModelRequest {
  const tools = [{ name: 'bank__pay_now', qualifiedName: 'bank/pay/now', inputSchema: {} }];
  return { turn: 1, messages, tools, signal: new AbortController().signal, ...over };
}

test('it proposes the call as stated, under the name that the run offers', async () => {
  expect(spec.servers).toEqual([{ name: 'bank', url: 'https://bank.example/mcp', allowedTools: ['pay/now'] }]);
  const { parts } = await CALLER.step(request([opening]));
  expect(parts).toEqual([
    { type: 'call', providerCallId: 'call', name: 'bank__pay_now', arguments: { amount: 1, to: '"}] {' } },
  ]);
});

test('a tool that is not offered is proposed all the same: refusing it is the work of the gate (INV-G1)', async () => {
  const { parts } = await CALLER.step(request([opening], { tools: [] }));
  expect(parts).toMatchObject([{ type: 'call', name: 'bank/pay/now' }]);
});

test('arguments that nest without end are no part of the run, and told as those of any model', async () => {
  const wanted = (levels: number): string =>
    `{"tool":"bank/pay/now","arguments":{"a":${'['.repeat(levels)}${']'.repeat(levels)}}}`;
  const proposed = async (levels: number) =>
    (await CALLER.step(request([{ role: 'user', text: wanted(levels) }]))).parts;
  expect(await proposed(99)).not.toMatchObject([{ malformed: expect.anything() }]);
  expect(await proposed(100)).toMatchObject([
    { arguments: {}, malformed: 'the arguments nest deeper than 100 levels' },
  ]);
});

test('once the call has an outcome it proposes nothing more, whatever is said to it', async () => {
  const outcome = { kind: 'rejected', by: 'ben', reason: 'no' } as const;
  const result = { callId: 't1.c0', providerCallId: 'call', name: 'bank__pay_now', outcome };
  const said: Message[] = [opening, { role: 'tool', results: [result] }, { role: 'user', text: 'Again!', from: 'eve' }];
  const { parts, finish } = await CALLER.step(request(said));
  expect(finish).toBe('stop');
  const [part] = parts;
  expect(CallAnswer.parse(JSON.parse(part?.type === 'text' ? part.text : ''))).toEqual({ callId: 't1.c0', outcome });
});

test.each(['Do it.', '{"tool":"bank/pay"}', '{"tool":1,"arguments":{}}', '[]', 'null'])(
  'an input that states no call is refused: %s',
  async (text) => {
    await expect(CALLER.step(request([{ role: 'user', text }]))).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      facts: { path: 'input' },
    });
  },
);

test('no configuration has a model of its name', () => {
  const config = Config.parse({ models: { caller: { provider: 'scripted', script: { steps: [{ text: 'done' }] } } } });
  expect(() => checkConfig(config, 'countersign.yaml')).toThrow(/models\.caller/);
});

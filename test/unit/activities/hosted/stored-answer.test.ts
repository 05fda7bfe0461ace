/** A hosted call that continues a stored answer is made only if that answer asks for exactly this call (docs/adr/0080, INV-G1). */
import { describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createHostedServer } from '../../../../activities/hosted/hosted-server.ts';
import {
  type ResponsesApi,
  ResponsesRefusal,
  type StoredAnswers,
} from '../../../../activities/models/responses-api.ts';
import type { JsonObject, JsonValue } from '../../../../contracts/schemas/json.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';

const CALL = aCall({ approvalRequestId: 'mcpr_1', storedAnswerId: 'resp_1', arguments: { path: 'a' } });
const MADE = {
  type: 'mcp_call',
  id: 'mcp_1',
  server_label: 'files',
  name: 'write_file',
  arguments: '{"path":"a"}',
  approval_request_id: 'mcpr_1',
};

describe('a call that continues a stored answer', () => {
  const QUESTION: JsonObject = {
    type: 'mcp_approval_request',
    id: 'mcpr_1',
    server_label: 'files',
    name: 'write_file',
    arguments: '{ "path" : "a" }',
  };
  const connection = aConnection({
    url: 'https://files.example/mcp',
    hosted: { model: 'gpt' },
    headers: { 'x-team': 'red' },
    accessToken: 'secret-of-the-server',
  });

  async function continued(stored: StoredAnswers, over: Parameters<typeof aCall>[0] = {}) {
    const bodies: JsonObject[] = [];
    const read: string[] = [];
    const ask: ResponsesApi = async ({ body, onAnswer, onItem }) => {
      bodies.push(body);
      onAnswer?.();
      onItem?.({ ...MADE, status: 'completed', output: 'done' });
      return { items: [], response: {} };
    };
    const reading: StoredAnswers = async (id, signal) => {
      read.push(id);
      return await stored(id, signal);
    };
    const models = () => ({ ask, stored: reading, apiKey: 'secret-of-the-model' });
    const server = createHostedServer({ artifacts: createMemoryStore(), models });
    const ending = await server.call(connection, { ...CALL, ...over });
    return { ending, bodies, read };
  }
  const answering =
    (...output: readonly JsonObject[]): StoredAnswers =>
    async () => ({ id: 'resp_1', status: 'completed', output });

  test('answers all that waits in it, approves one request, and states neither definition nor request', async () => {
    const { ending, bodies, read } = await continued(
      answering(
        { type: 'reasoning', id: 'rs_1', summary: [] },
        { ...QUESTION, id: 'mcpr_0', server_label: 'far' },
        QUESTION,
        { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'local__pay', arguments: '{}' },
      ),
    );
    expect(ending).toMatchObject({ kind: 'executed', isError: false });
    expect(read).toEqual(['resp_1']);
    const apart = 'It is answered apart from this.';
    expect(bodies).toEqual([
      {
        previous_response_id: 'resp_1',
        max_output_tokens: 16,
        input: [
          { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true },
          { type: 'mcp_approval_response', approval_request_id: 'mcpr_0', approve: false, reason: apart },
          { type: 'function_call_output', call_id: 'call_1', output: apart },
        ],
        tools: [
          {
            type: 'mcp',
            server_label: 'files',
            server_url: 'https://files.example/mcp',
            require_approval: 'always',
            allowed_tools: ['write_file'],
            authorization: 'secret-of-the-server',
            headers: { 'x-team': 'red', 'idempotency-key': 'run-1/t1.c0' },
          },
        ],
      },
    ]);
  });

  test.each<[string, readonly JsonObject[]]>([
    ['has no such request', []],
    ['has it under another id', [{ ...QUESTION, id: 'mcpr_2' }]],
    ['asks for other arguments', [{ ...QUESTION, arguments: '{"path":"b"}' }]],
    ['asks for more arguments', [{ ...QUESTION, arguments: '{"path":"a","mode":"x"}' }]],
    ['asks with arguments that are no JSON', [{ ...QUESTION, arguments: '{"path":' }]],
    ['asks for another tool', [{ ...QUESTION, name: 'delete_file' }]],
    ['asks for another server', [{ ...QUESTION, server_label: 'far' }]],
    ['asks for two calls under one id', [QUESTION, { ...QUESTION, arguments: '{"path":"b"}' }]],
    ['has made the call', [{ ...MADE, status: 'completed', output: 'done' }]],
  ])('approves nothing if that answer %s', async (_, output) => {
    const { ending, bodies } = await continued(answering(...output));
    expect(ending).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    expect(bodies).toEqual([]);
  });

  test.each<[string, string, JsonObject]>([
    ['a number that is rounded here', '{"amount":10000000000000001}', { amount: 10_000_000_000_000_000 }],
    ['one within a list', '{"ids":[[12345678901234567]]}', { ids: [[12_345_678_901_234_568]] }],
    ['a name twice', '{"amount":9000,"amount":1}', { amount: 1 }],
    ['a name twice, once escaped', '{"a":{"n":1,"\\u006e":1}}', { a: { n: 1 } }],
  ])('approves nothing if the provider may read other arguments: %s', async (_, text, args) => {
    const { ending, bodies } = await continued(answering({ ...QUESTION, arguments: text }), { arguments: args });
    expect(ending).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    expect(bodies).toEqual([]);
  });

  test.each<[JsonValue]>([[{ path: 'b' }], [['b']], [7]])(
    'without arguments approves nothing if that answer has arguments that are no text: %j',
    async (given) => {
      const { ending, bodies } = await continued(answering({ ...QUESTION, arguments: given }), { arguments: {} });
      expect(ending).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
      expect(bodies).toEqual([]);
    },
  );

  test.each<[string, JsonObject]>([
    [
      '{"a":"\\"12345678901234567: \\\\","b":{"a":[{},{"c":-1.5e3}]}}',
      { a: '"12345678901234567: \\', b: { a: [{}, { c: -1500 }] } },
    ],
    [
      '{"at":1700000000000000000,"__proto__":{"x":9007199254740992}}',
      JSON.parse('{"at":1700000000000000000,"__proto__":{"x":9007199254740992}}') as JsonObject,
    ],
    [' ', {}],
  ])('approves what every reader takes for the same: %s', async (text, args) => {
    const { bodies } = await continued(answering({ ...QUESTION, arguments: text }), { arguments: args });
    expect(bodies).toHaveLength(1);
  });

  test.each(['', '.', '..', '../models', 'resp_1/../x', 'resp 1', 'resp_1?x', 'r'.repeat(501)])(
    'asks for nothing under what is no id: %j',
    async (storedAnswerId) => {
      const { ending, bodies, read } = await continued(answering(QUESTION), { storedAnswerId });
      expect(ending).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
      expect([...bodies, ...read]).toEqual([]);
    },
  );

  test.each<[unknown, object]>([
    [new ResponsesRefusal(404, {}, {}), { kind: 'refused', code: 'STORED_ANSWER_GONE' }],
    [new ResponsesRefusal(429, { 'retry-after': '2' }, {}), { kind: 'refused', code: 'TOOL_RATE_LIMITED' }],
    [new ResponsesRefusal(401, {}, {}), { kind: 'refused', code: 'MODEL_REJECTED' }],
    [new ResponsesRefusal(500, {}, {}), { kind: 'not-sent', code: 'TOOL_UNAVAILABLE' }],
    [
      new TypeError('fetch failed', { cause: Object.assign(new Error('reset'), { code: 'ECONNRESET' }) }),
      { kind: 'not-sent', code: 'TOOL_UNAVAILABLE' },
    ],
    [new SyntaxError('no JSON'), { kind: 'not-sent', code: 'TOOL_UNAVAILABLE' }],
  ])('is proven not to have left if that answer cannot be read: %s', async (error, expected) => {
    const { ending, bodies } = await continued(async () => {
      throw error;
    });
    expect(ending).toMatchObject(expected);
    expect(bodies).toEqual([]);
  });

  test('is proven not to have left if it is withdrawn while that answer is read', async () => {
    const withdrawn = new AbortController();
    const { ending, bodies } = await continued(
      async (_, signal) => {
        withdrawn.abort();
        expect(signal.aborted).toBe(true);
        return await answering(QUESTION)('resp_1', signal);
      },
      { signal: withdrawn.signal },
    );
    expect(ending).toMatchObject({ kind: 'not-sent' });
    expect(bodies).toEqual([]);
  });

  test('is proven not to have left if its time is over once that answer is read', async () => {
    const { ending, bodies } = await continued(
      async (id, signal) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return await answering(QUESTION)(id, signal);
      },
      { timeoutMs: 20 },
    );
    expect(ending).toMatchObject({ kind: 'not-sent', message: expect.stringContaining('its time was over') });
    expect(bodies).toEqual([]);
  });

  test('tells no secret that the refusal of that answer tells', async () => {
    const message = 'secret-of-the-model for secret-of-the-server, red';
    const { ending } = await continued(async () => {
      throw new ResponsesRefusal(404, {}, { error: { message } });
    });
    expect(JSON.stringify(ending)).not.toMatch(/secret-of-the/);
  });

  test('is refused, not unknown, if the answer is forgotten before it is continued', async () => {
    const body = { error: { code: 'previous_response_not_found', message: 'not found' } };
    const ask: ResponsesApi = async ({ onAnswer }) => {
      onAnswer?.();
      throw new ResponsesRefusal(400, {}, body);
    };
    const models = () => ({ ask, stored: answering(QUESTION) });
    const server = createHostedServer({ artifacts: createMemoryStore(), models });
    const ending = await server.call(connection, CALL);
    expect(ending).toMatchObject({ kind: 'refused', code: 'STORED_ANSWER_GONE' });
  });
});

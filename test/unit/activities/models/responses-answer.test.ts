/** How an answer of the Responses API is read: whole, in linear time, and no call that was cut off. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createResponsesModel } from '../../../../activities/models/responses.ts';
import { createResponsesApi } from '../../../../activities/models/responses-api.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../../contracts/schemas/json.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { modelRequest } from '../../../support/models/request.ts';
import { listenOnLoopback } from '../../../support/servers/loopback-server.ts';

let server: Awaited<ReturnType<typeof listenOnLoopback>>;
let says: readonly (string | Uint8Array)[] = [];

beforeAll(async () => {
  server = await listenOnLoopback((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const written = async (): Promise<void> => {
      for (const text of says) {
        if (response.destroyed) return;
        // Each text leaves before the next one.
        await new Promise<void>((resolve) => response.write(text, () => resolve()));
      }
      response.end();
    };
    written().catch(() => response.destroy());
  });
});
afterAll(async () => await server.close());

const config = () => ({
  provider: 'openai' as const,
  model: 'gpt-5.1',
  baseUrl: `${server.origin}/v1`,
  maxOutputTokens: 100,
  timeoutSeconds: 30,
});
const eventOf = (data: JsonObject): string => `data: ${JSON.stringify(data)}\n\n`;
const done = (item: JsonObject): string => eventOf({ type: 'response.output_item.done', item });
const CLOSING = eventOf({ type: 'response.completed', response: { id: 'resp_1', status: 'completed', usage: {} } });

async function itemsOf(...texts: readonly (string | Uint8Array)[]): Promise<readonly JsonObject[]> {
  says = texts;
  const api = createResponsesApi('gpt', config(), loopbackEgress());
  return (await api({ body: {}, signal: new AbortController().signal })).items;
}

async function partsOf(...items: readonly JsonObject[]) {
  says = [...items.map(done), CLOSING];
  return (await createResponsesModel('gpt', config(), loopbackEgress()).step(modelRequest())).parts;
}

describe('events', () => {
  const item = { type: 'message', text: 'a\u00e9\u{1f600}b' };

  test.each(['\n', '\r\n'])('are found wherever they are cut, with the line end %j', async (end) => {
    const text = `: hello${end}${end}event: x${end}data: {"type":"response.output_item.done",${end}data:"item":${JSON.stringify(item)}}${end}${end}${CLOSING.replaceAll('\n', end)}`;
    const bytes = new TextEncoder().encode(text);
    expect(await itemsOf(bytes)).toEqual([item]);
    expect(await itemsOf(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual([item]);
  });

  test('of 16 MiB are read while they come', async () => {
    const large = { type: 'message', text: 'x'.repeat(16_777_216) };
    const text = done(large);
    const pieces = Array.from({ length: Math.ceil(text.length / 16_384) }, (_, index) =>
      text.slice(index * 16_384, (index + 1) * 16_384),
    );
    const [found] = await itemsOf(...pieces, CLOSING);
    // Not as a whole: where they differ, 16 MiB would be shown.
    expect(found?.['text'] === large.text).toBe(true);
  }, 12_000);

  test('that are larger than any answer needs are not kept, and the model is not asked again', async () => {
    says = ['data: "', ...Array.from({ length: 65 }, () => 'x'.repeat(1_048_576))];
    const model = createResponsesModel('gpt', config(), loopbackEgress());
    await expect(model.step(modelRequest())).rejects.toMatchObject({ code: 'MODEL_OUTPUT_INVALID' });
  }, 20_000);
});

describe('an error in the stream', () => {
  const failedFor = (code: string): JsonObject => ({
    type: 'response.failed',
    response: { id: 'resp_1', status: 'failed', error: { code, message: 'what was asked' } },
  });

  test.each<[JsonObject, string, string]>([
    [failedFor('context_length_exceeded'), 'MODEL_REJECTED', 'too large for the model'],
    [failedFor('invalid_prompt'), 'MODEL_REJECTED', 'would be rejected again'],
    [{ type: 'error', code: 'context_length_exceeded', message: '' }, 'MODEL_REJECTED', 'too large for the model'],
    [failedFor('rate_limit_exceeded'), 'MODEL_UNAVAILABLE', 'asked again'],
    [failedFor('server_error'), 'MODEL_UNAVAILABLE', 'asked again'],
    [failedFor('no_known_word'), 'MODEL_UNAVAILABLE', 'asked again'],
  ])('is final where the same request would fail again: %j', async (event, code, words) => {
    says = [eventOf(event)];
    const model = createResponsesModel('gpt', config(), loopbackEgress());
    await expect(model.step(modelRequest())).rejects.toMatchObject({ code, message: expect.stringContaining(words) });
  });
});

describe('a function call', () => {
  const call = { type: 'function_call', call_id: 'call_1', name: 'files__list' };

  test.each(['incomplete', 'in_progress'])(
    'that is %s was cut off: it is not one without arguments',
    async (status) => {
      for (const args of ['', '{}', '{"path":'])
        expect(await partsOf({ ...call, status, arguments: args })).toEqual([
          expect.objectContaining({ type: 'call', arguments: {}, malformed: 'the call was cut off' }),
        ]);
    },
  );

  test.each<[JsonValue, JsonObject]>([
    ['', {}],
    [' ', {}],
    ['{"path":"a"}', { path: 'a' }],
  ])('that is complete has its arguments: %j', async (args, read) => {
    const [part] = await partsOf({ ...call, status: 'completed', arguments: args });
    expect(part).toMatchObject({ arguments: read });
    expect(part).not.toHaveProperty('malformed');
  });

  const [NUMBER, NO_TEXT] = [/number/, /^the arguments are not a JSON object in a text$/];
  test.each<[JsonValue, RegExp]>([
    ['{"id":12345678901234567}', NUMBER],
    ['{"limit":1e999}', NUMBER],
    [{ path: 'a' }, NO_TEXT],
    [7, NO_TEXT],
    [['a'], NO_TEXT],
    [true, NO_TEXT],
  ])('whose arguments cannot be kept is malformed, and not a call without arguments: %j', async (args, why) => {
    const question = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'bank', name: 'pay' };
    for (const item of [call, question])
      expect(await partsOf({ ...item, arguments: args })).toEqual([
        expect.objectContaining({ arguments: {}, malformed: expect.stringMatching(why) }),
      ]);
  });

  test.each(['""', '"a"', '[]', 'null', '{'])('whose arguments are no object is malformed: %s', async (args) => {
    expect(await partsOf({ ...call, arguments: args })).toEqual([
      expect.objectContaining({ arguments: {}, malformed: expect.any(String) }),
    ]);
  });
});

describe('an answer in words', () => {
  const message = (...content: readonly JsonObject[]): JsonObject => ({ type: 'message', role: 'assistant', content });
  const REFUSAL = { type: 'refusal', refusal: 'I cannot.' };
  const endOf = async (response: JsonObject, ...items: readonly JsonObject[]) => {
    says = [
      ...items.map(done),
      eventOf({ type: 'response.completed', response: { id: 'resp_1', usage: {}, ...response } }),
    ];
    return await createResponsesModel('gpt', config(), loopbackEgress()).step(modelRequest());
  };

  test('that refuses is refused, with its words, as without hosted tools', async () => {
    expect(await endOf({}, message(REFUSAL))).toMatchObject({
      finish: 'refused',
      parts: [{ type: 'text', text: 'I cannot.' }],
    });
    expect(await endOf({}, message({ type: 'output_text', text: 'I can.' }))).toMatchObject({ finish: 'stop' });
  });

  test('that was cut says so, whatever it says by then', async () => {
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
    expect(await endOf(cut, message(REFUSAL))).toMatchObject({ finish: 'length' });
  });

  test('beside a call goes on with the call', async () => {
    const call = { type: 'function_call', call_id: 'call_1', name: 'files__list', arguments: '{}' };
    expect(await endOf({}, message(REFUSAL), call)).toMatchObject({ finish: 'calls' });
  });
});

test.each<[JsonValue]>([
  [{}],
  [null],
  [{ input_tokens: -5, output_tokens: 'many' }],
  [{ input_tokens: 1e300, output_tokens: 0 }],
])('usage that says nothing is estimated by size: %j', async (usage) => {
  const item = { type: 'message', content: [{ type: 'output_text', text: 'x'.repeat(400) }] };
  says = [done(item), eventOf({ type: 'response.completed', response: { id: 'resp_1', usage } })];
  const answer = await createResponsesModel('gpt', config(), loopbackEgress()).step(modelRequest());
  expect(answer.usage.outputTokens).toBeGreaterThan(100);
  expect(answer.usage.outputTokens).toBeLessThan(150);
  expect(answer.usage.inputTokens).toBeGreaterThan(20);
  expect(answer.usage.inputTokens).toBeLessThan(1_000);
});

test('reasoning that nests too deeply, or has no canonical form, is not kept to be told again', async () => {
  const deep = JSON.parse(`${'['.repeat(150)}${']'.repeat(150)}`) as JsonValue;
  const summary = [{ type: 'summary_text', text: 'thought' }];
  expect(await partsOf({ type: 'reasoning', id: 'rs_1', summary, encrypted_content: deep })).toEqual([
    { type: 'reasoning', text: 'thought' },
  ]);
  expect(await partsOf({ type: 'reasoning', id: 'rs_1', summary: [deep] })).toEqual([]);
  const endless = done({ type: 'reasoning', id: 'rs_1', summary, encrypted_content: 'N' }).replace('"N"', '1e999');
  says = [endless, CLOSING];
  const { parts } = await createResponsesModel('gpt', config(), loopbackEgress()).step(modelRequest());
  expect(parts).toEqual([{ type: 'reasoning', text: 'thought' }]);
  expect(() => hashOf(parts)).not.toThrow();
  expect(await partsOf({ type: 'reasoning', id: 'rs_1', summary })).toEqual([
    expect.objectContaining({ type: 'reasoning', text: 'thought', provider: expect.anything() }),
  ]);
});

describe('a stored answer', () => {
  const question = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'bank', name: 'pay', arguments: '{}' };
  const answered = async (storesAnswers: boolean | undefined, response: JsonObject) => {
    says = [done(question), eventOf({ type: 'response.completed', response: { usage: {}, ...response } })];
    const model = createResponsesModel('gpt', { ...config(), ...defined({ storesAnswers }) }, loopbackEgress());
    const [part] = (await model.step(modelRequest())).parts;
    return part;
  };

  test('is named beside the request for approval, if the operator lets it be stored', async () => {
    for (const store of [{}, { store: true }])
      expect(await answered(true, { id: 'resp_1', ...store })).toMatchObject({
        approvalRequestId: 'mcpr_1',
        storedAnswerId: 'resp_1',
      });
    for (const stores of [false, undefined])
      expect(await answered(stores, { id: 'resp_1' })).not.toHaveProperty('storedAnswerId');
  });

  test('is none if the provider says that it keeps nothing', async () => {
    const part = await answered(true, { id: 'resp_1', store: false });
    expect(part).not.toHaveProperty('storedAnswerId');
    expect(part).not.toHaveProperty('malformed');
  });

  test.each([undefined, '', '../models', 'resp 1', 'r'.repeat(501)])(
    'that has no id to be found by makes no call: %j',
    async (id) => {
      const part = await answered(true, defined({ id }));
      expect(part).toMatchObject({ malformed: expect.stringContaining('no id'), arguments: {} });
      expect(part).not.toHaveProperty('storedAnswerId');
    },
  );
});

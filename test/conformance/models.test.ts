/** The models port, its scripted model and its three providers. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { createScriptedModel } from '../../activities/models/scripted.ts';
import { defined } from '../../contracts/defined.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { Script } from '../../contracts/schemas/script.ts';
import { anthropicDialect } from '../support/models/anthropic.ts';
import { answered, failed, type ModelBench, startModelBench } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { type Dialect, object, objects, type Said, said, sse } from '../support/models/dialect.ts';
import { openaiDialect } from '../support/models/openai.ts';
import { LIST_FILES, modelRequest, OPENING, READ_FILE, turnMessages } from '../support/models/request.ts';
import { type ModelHarness, modelSuite, providerSuite, refusalSuite } from './models.suite.ts';

const scripted: ModelHarness = {
  name: 'scripted',
  start: async () => ({
    modelThatSays: (...answers) =>
      createScriptedModel(Script.parse({ steps: answers.length === 0 ? [{}] : answers.map(scriptStep) })),
    close: async () => undefined,
  }),
};

function scriptStep({ parts }: Said): unknown {
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []))[0];
  const calls = parts.flatMap((part) =>
    part.type === 'call' ? [{ tool: part.name, arguments: JSON.parse(part.json) as unknown }] : [],
  );
  return { calls, ...defined({ text }) };
}

function overTheWire(dialect: Dialect): ModelHarness {
  return {
    name: dialect.provider,
    start: async () => {
      const bench = await startModelBench(dialect);
      return {
        modelThatSays: (...answers) => {
          bench.reply(...answers.map((answer) => ({ ...answer, parts: answer.parts.map(underModelName) })));
          return bench.model();
        },
        close: async () => bench.server.close(),
      };
    },
  };
}

/** A provider's model says the name that it was offered. */
function underModelName(part: Said['parts'][number]): Said['parts'][number] {
  if (part.type !== 'call') return part;
  const tool = [READ_FILE, LIST_FILES].find(({ qualifiedName }) => qualifiedName === part.name);
  return { ...part, name: tool?.name ?? part.name };
}

modelSuite(scripted);
for (const dialect of [openaiDialect, anthropicDialect, chatDialect]) {
  modelSuite(overTheWire(dialect));
  providerSuite(dialect);
  refusalSuite(dialect);
}

// What only one provider's protocol has.

const CALL = { type: 'call', id: 'call_1', name: READ_FILE.name, json: '{"path":"a.txt"}' } as const;
const DONE = said([{ type: 'text', text: 'Done.' }]);

let bench: ModelBench | undefined;
afterEach(async () => bench?.server.close());

/** The request that follows an answer given as raw events. */
async function requestAfter(dialect: Dialect, events: readonly string[]): Promise<JsonObject> {
  bench = await startModelBench(dialect);
  bench.server.enqueue(answered(events));
  bench.reply(DONE);
  const first = await bench.model().step(modelRequest());
  await bench.model().step(modelRequest({ turn: 2, messages: [...OPENING, ...turnMessages(1, first, [])] }));
  expect(bench.server.received.flatMap(({ violations }) => violations)).toEqual([]);
  return bench.server.received[1]?.body ?? {};
}

describe('OpenAI', () => {
  test('is asked to store nothing, to send reasoning encrypted, and not to make tools strict', async () => {
    const body = await requestAfter(openaiDialect, openaiDialect.events(said([CALL])));
    expect(body).toMatchObject({
      store: false,
      include: ['reasoning.encrypted_content'],
      tools: [{ strict: false }, { strict: false }],
    });
    expect(body).not.toHaveProperty('previous_response_id');
  });

  test('gets a reasoning item back as one item under its id, its summaries in order', async () => {
    const reasoning = { type: 'reasoning', text: 'First.', seal: 'sealed' } as const;
    const events = openaiDialect.events(said([reasoning, CALL]));
    const second = {
      type: 'response.reasoning_summary_part.added',
      output_index: 0,
      item_id: 'rs_0',
      summary_index: 1,
      sequence_number: 0,
    };
    const delta = { ...second, type: 'response.reasoning_summary_text.delta', delta: 'Then.' };
    const at = events.findIndex((event) => event.includes('response.output_item.done'));
    const part = { type: 'summary_text', text: '' };
    const twoParts = [
      ...events.slice(0, at),
      sse(second.type, { ...second, part }),
      sse(delta.type, delta),
      ...events.slice(at),
    ];
    const body = await requestAfter(openaiDialect, twoParts);
    expect(objects(body['input']).filter(({ type }) => type === 'reasoning')).toEqual([
      {
        type: 'reasoning',
        id: 'rs_0',
        encrypted_content: 'sealed',
        summary: [
          { type: 'summary_text', text: 'First.' },
          { type: 'summary_text', text: 'Then.' },
        ],
      },
    ]);
  });
});

describe('Anthropic', () => {
  test('gets redacted thinking back as it came', async () => {
    const [start = '', ping = '', ...rest] = anthropicDialect.events(said([{ type: 'text', text: 'Hm.' }, CALL]));
    const block = { type: 'redacted_thinking', data: 'b3BhcXVl' };
    const redacted = [
      sse('content_block_start', { type: 'content_block_start', index: 7, content_block: block }),
      sse('content_block_stop', { type: 'content_block_stop', index: 7 }),
    ];
    const body = await requestAfter(anthropicDialect, [start, ping, ...redacted, ...rest]);
    const assistant = objects(body['messages']).find(({ role }) => role === 'assistant');
    expect(objects(object(assistant)['content'])[0]).toEqual(block);
  });
});

describe('an OpenAI-compatible server', () => {
  test("gets Gemini's thought signature back with the call that it signs", async () => {
    const signed = chatDialect
      .events(said([CALL]))
      .map((event) =>
        event.replace('"type":"function"', '"type":"function","extra_content":{"google":{"thought_signature":"c2ln"}}'),
      );
    const body = await requestAfter(chatDialect, signed);
    const assistant = objects(body['messages']).find(({ role }) => role === 'assistant');
    expect(objects(object(assistant)['tool_calls'])).toMatchObject([
      { extra_content: { google: { thought_signature: 'c2ln' } } },
    ]);
  });

  test('may give calls without ids', async () => {
    const anonymous = chatDialect.events(said([CALL])).map((event) => event.replace('"id":"call_1",', ''));
    const body = await requestAfter(chatDialect, anonymous);
    const { calls, results } = chatDialect.echo(body);
    expect(calls).toHaveLength(1);
    expect(results.map(({ id }) => id)).toEqual(calls);
  });

  test.each<[JsonObject, string]>([
    [{ message: 'too long', type: 'BadRequestError', code: 400 }, 'MODEL_REJECTED'],
    [{ message: 'no credits', code: 402 }, 'MODEL_REJECTED'],
    [{ message: 'too long', type: null, code: 'context_length_exceeded' }, 'MODEL_REJECTED'],
    [{ message: 'slow down', code: 429 }, 'MODEL_UNAVAILABLE'],
    [{ message: 'away', code: 502 }, 'MODEL_UNAVAILABLE'],
    [{ message: 'broken', type: 'server_error', code: null }, 'MODEL_UNAVAILABLE'],
  ])('says in its stream by code whether an error may pass: %j', async (error, code) => {
    bench = await startModelBench(chatDialect);
    bench.server.enqueue(answered([sse(undefined, { error })]));
    await expect(bench.model().step(modelRequest())).rejects.toMatchObject({ code });
  });

  test('says by the status of its answer whether an error may pass, whatever the body says', async () => {
    bench = await startModelBench(chatDialect);
    bench.server.enqueue(failed(429, '{"type":"invalid_request_error","message":"slow down"}'));
    await expect(bench.model().step(modelRequest())).rejects.toMatchObject({ code: 'MODEL_UNAVAILABLE' });
  });

  test.each(['abort', 'error', 'insufficient_system_resource'])(
    'that has given up within its answer (%s) has given none, and no call of it is made',
    async (word) => {
      bench = await startModelBench(chatDialect);
      const events = chatDialect.events(said([{ type: 'text', text: 'The first half' }, CALL]));
      bench.server.enqueue(
        answered(events.map((event) => event.replace('"tool_calls","logprobs"', `"${word}","logprobs"`))),
      );
      await expect(bench.model().step(modelRequest())).rejects.toMatchObject({ code: 'MODEL_UNAVAILABLE' });
    },
  );

  test('may have a word of its own for a stop', async () => {
    bench = await startModelBench(chatDialect);
    const events = chatDialect.events(DONE).map((event) => event.replace('"stop","logprobs"', '"eos","logprobs"'));
    expect(events.join('')).toContain('"eos"');
    bench.server.enqueue(answered(events));
    expect(await bench.model().step(modelRequest())).toMatchObject({ finish: 'stop', parts: [{ text: 'Done.' }] });
  });

  test('may count no tokens, though it is asked to: they are estimated', async () => {
    bench = await startModelBench(chatDialect);
    bench.server.enqueue(answered(chatDialect.events(DONE).filter((event) => !event.includes('prompt_tokens":'))));
    const { usage } = await bench.model().step(modelRequest());
    expect(usage.inputTokens).toBeGreaterThan(20);
    expect(usage.outputTokens).toBeGreaterThan(5);
  });

  test('is asked to count tokens', async () => {
    const body = await requestAfter(chatDialect, chatDialect.events(said([CALL])));
    expect(body['stream_options']).toEqual({ include_usage: true });
  });
});

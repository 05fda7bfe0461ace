/**
 * What every model of the port does, whatever stands behind it. One file, because an adapter passes all of it: steps,
 * the provider's protocol, and refusals.
 */
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Model } from '../../activities/models/port.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { modelText } from '../../domain/views/model-text.ts';
import { answered, API_KEY, failed, type ModelBench, rejection, startModelBench } from '../support/models/bench.ts';
import { type Dialect, type Echo, type Said, said, type SaidPart } from '../support/models/dialect.ts';
import {
  EVERY_OUTCOME,
  LIST_FILES,
  modelRequest,
  OPENING,
  READ_FILE,
  turnMessages,
} from '../support/models/request.ts';
import { withCode } from '../support/refusal.ts';

export interface ModelHarness {
  readonly name: string;
  /** A model that gives these answers, one per step; a call is named `server/tool`. */
  start(): Promise<{ modelThatSays(...answers: readonly Said[]): Model; close(): Promise<void> }>;
}

const CALL_A = { type: 'call', id: 'p1', name: 'files/read_file', json: '{"path":"a.txt"}' } as const;
const CALL_B = { type: 'call', id: 'p2', name: 'files/read_file', json: '{"path":"b.txt"}' } as const;

export function modelSuite(harness: ModelHarness): void {
  describe(`the model port: ${harness.name}`, () => {
    let bench: Awaited<ReturnType<ModelHarness['start']>>;
    beforeAll(async () => void (bench = await harness.start()));
    afterAll(async () => bench.close());

    test('an answer in words ends the turn and reports its usage', async () => {
      const model = bench.modelThatSays(said([{ type: 'text', text: 'It is empty.' }]));
      const answer = await model.step(modelRequest());
      expect(answer.finish).toBe('stop');
      expect(answer.parts).toMatchObject([{ type: 'text', text: 'It is empty.' }]);
      for (const tokens of Object.values(answer.usage)) expect(Number.isInteger(tokens) && tokens >= 0).toBe(true);
    });

    test('calls of one answer keep their order, their own arguments and ids of their own', async () => {
      const model = bench.modelThatSays(said([{ type: 'text', text: 'Both.' }, CALL_A, CALL_B]));
      const answer = await model.step(modelRequest());
      expect(answer.finish).toBe('calls');
      const calls = answer.parts.flatMap((part) => (part.type === 'call' ? [part] : []));
      expect(calls).toMatchObject([
        { name: READ_FILE.name, arguments: { path: 'a.txt' } },
        { name: READ_FILE.name, arguments: { path: 'b.txt' } },
      ]);
      expect(new Set(calls.map(({ providerCallId }) => providerCallId)).size).toBe(2);
    });

    test('INV-G1: a tool that was not offered is proposed under its raw name, for the gate to deny', async () => {
      const model = bench.modelThatSays(said([{ ...CALL_A, name: 'files/erase_all' }]));
      const answer = await model.step(modelRequest());
      expect(answer.parts).toMatchObject([{ type: 'call', name: 'files/erase_all', arguments: { path: 'a.txt' } }]);
    });

    test('it needs no tools', async () => {
      const model = bench.modelThatSays(said([{ type: 'text', text: 'Hello.' }]));
      expect(await model.step(modelRequest({ tools: [] }))).toMatchObject({ finish: 'stop' });
    });

    test.each(Object.entries(EVERY_OUTCOME))('INV-X2: it goes on after a call that ended as %s', async (_, outcome) => {
      const model = bench.modelThatSays(said([CALL_A]), said([{ type: 'text', text: 'I see.' }]));
      const first = await model.step(modelRequest());
      const messages = [...OPENING, ...turnMessages(1, first, [outcome])];
      const second = await model.step(modelRequest({ turn: 2, messages }));
      expect(second).toMatchObject({ finish: 'stop', parts: [{ type: 'text', text: 'I see.' }] });
    });

    test('an aborted signal ends the step with its reason before anything is asked', async () => {
      const model = bench.modelThatSays();
      const reason = new Error('cancelled by the run');
      await expect(model.step(modelRequest({ signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
    });

    test('its answer is plain JSON', async () => {
      const model = bench.modelThatSays(said([{ type: 'reasoning', text: 'Hm.', seal: 'c2VhbA==' }, CALL_A]));
      const answer = await model.step(modelRequest());
      expect(JSON.parse(JSON.stringify(answer))).toStrictEqual(answer);
    });
  });
}

// What every adapter of a provider sends and reads, in the provider's own protocol.

const CALL = { type: 'call', id: 'call_a1', name: READ_FILE.name, json: '{"path":"a.txt"}' } as const;
const TEXT = { type: 'text', text: 'Done.' } as const;

function nested(levels: number): string {
  return `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
}

export function providerSuite(dialect: Dialect): void {
  describe(`the wire of ${dialect.provider}`, () => {
    let bench: ModelBench;
    let seen = 0;
    beforeAll(async () => void (bench = await startModelBench(dialect)));
    afterAll(async () => bench.server.close());
    /** Whatever a test sent must have the published shape. */
    afterEach(() => {
      for (const { violations, path } of bench.server.received.slice(seen)) {
        expect(violations).toEqual([]);
        expect(path).toBe(dialect.path);
      }
      seen = bench.server.received.length;
    });
    const lastEcho = (): Echo => dialect.echo(bench.server.received.at(-1)?.body ?? {});

    test('one step is one request, with the configured key, model and limit', async () => {
      bench.reply(said([TEXT]));
      await bench.model().step(modelRequest());
      expect(bench.server.received).toHaveLength(seen + 1);
      const { headers, body } = bench.server.received[seen] ?? {};
      expect(headers?.[dialect.keyHeader]).toBe(dialect.key(API_KEY));
      expect(body).toMatchObject({ model: dialect.model, stream: true });
      expect(JSON.stringify(body)).toContain('256');
      expect(JSON.stringify(body)).not.toContain('CANARY');
    });

    test('without a configured key none is sent, not even one of the environment', async () => {
      jest.replaceProperty(process, 'env', {
        ...process.env,
        OPENAI_API_KEY: 'from-env',
        ANTHROPIC_API_KEY: 'from-env',
      });
      bench.reply(said([TEXT]));
      await bench.model({ apiKey: '' }).step(modelRequest());
      jest.restoreAllMocks();
      expect(bench.server.received.at(-1)?.headers).not.toHaveProperty(dialect.keyHeader);
    });

    test('usage is what the provider counted', async () => {
      bench.reply(said([TEXT], { inputTokens: 1_234, outputTokens: 56 }));
      expect((await bench.model().step(modelRequest())).usage).toEqual({ inputTokens: 1_234, outputTokens: 56 });
    });

    test('usage that the provider does not count, or counts as nothing, is estimated by size, so that limits hold', async () => {
      const nothing = { inputTokens: 0, outputTokens: 0 };
      const long: Message[] = [...OPENING, { role: 'user', text: 'x'.repeat(4_000) }];
      bench.reply(said([TEXT], nothing), said([{ type: 'text', text: 'y'.repeat(4_000) }], nothing));
      const first = (await bench.model().step(modelRequest())).usage;
      const { inputTokens, outputTokens } = (await bench.model().step(modelRequest({ messages: long }))).usage;
      expect(inputTokens - first.inputTokens).toBeGreaterThanOrEqual(1_000);
      expect(outputTokens - first.outputTokens).toBeGreaterThanOrEqual(990);
      expect(Math.min(first.inputTokens, first.outputTokens)).toBeGreaterThan(0);
      expect(inputTokens + outputTokens).toBeLessThan(4_000);
    });

    test('calls, results and reasoning go back as they came, without anything stored at the provider', async () => {
      const parts: SaidPart[] = [
        { type: 'reasoning', text: 'First the file.', seal: 'c2VhbGVk' },
        CALL,
        { ...CALL, id: 'call_a2' },
      ];
      bench.reply(said(parts), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      const messages = [...OPENING, ...turnMessages(1, first, [EVERY_OUTCOME.succeeded, EVERY_OUTCOME.rejected])];
      await bench.model().step(modelRequest({ turn: 2, messages }));
      const echo = lastEcho();
      expect(echo.calls).toEqual(['call_a1', 'call_a2']);
      expect(echo.results.map(({ id }) => id)).toEqual(['call_a1', 'call_a2']);
      expect(echo.reasoning).toEqual([{ text: 'First the file.', ...(dialect.seals ? { seal: 'c2VhbGVk' } : {}) }]);
    });

    test('reasoning without a summary still goes back where the provider sealed it', async () => {
      bench.reply(said([{ type: 'reasoning', text: '', seal: 'b25seQ==' }, CALL]), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      await bench.model().step(modelRequest({ turn: 2, messages: [...OPENING, ...turnMessages(1, first, [])] }));
      expect(lastEcho().reasoning).toEqual(dialect.seals ? [{ text: '', seal: 'b25seQ==' }] : []);
    });

    test('words of an earlier answer go back', async () => {
      bench.reply(
        said([{ type: 'reasoning', text: 'Easy.', seal: 'cw==' }, { type: 'text', text: 'I will look.' }, CALL]),
        said([TEXT]),
      );
      const first = await bench.model().step(modelRequest());
      await bench.model().step(modelRequest({ turn: 2, messages: [...OPENING, ...turnMessages(1, first, [])] }));
      expect(lastEcho().texts).toEqual(['What is in a.txt?', 'I will look.']);
    });

    test('INV-X2: each kind of outcome reaches the model as its own text', async () => {
      const outcomes = Object.values(EVERY_OUTCOME);
      bench.reply(said(outcomes.map((_, index) => ({ ...CALL, id: `c${index}` }))), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      await bench.model().step(modelRequest({ turn: 2, messages: [...OPENING, ...turnMessages(1, first, outcomes)] }));
      const { results } = lastEcho();
      expect(results.map(({ text }) => text)).toEqual(outcomes.map((outcome) => modelText(outcome).text));
      expect(new Set(results.map(({ text }) => text)).size).toBe(outcomes.length);
      if (dialect.flagsErrors)
        expect(results.map(({ isError }) => isError)).toEqual(outcomes.map((outcome) => modelText(outcome).isError));
    });

    test.each([
      ['no JSON', '{"path": "a.t'],
      ['a list', '["a.txt"]'],
      ['a word', '"a.txt"'],
      ['null', 'null'],
      ['another number once they are read', '{"path": "a.txt", "ids": [1, 1234567890123456789]}'],
      ['endless', '{"path": "a.txt", "limit": 1e999}'],
      ['nested too deeply', nested(1_000)],
    ])('arguments that are %s are proposed as malformed, and the run can go on', async (_, json) => {
      bench.reply(said([{ ...CALL, json }]), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      expect(first).toMatchObject({
        finish: 'calls',
        parts: [{ type: 'call', arguments: {}, malformed: expect.any(String) }],
      });
      const denied = { kind: 'denied', code: 'ARGUMENTS_INVALID', message: 'not an object' } as const;
      await bench.model().step(modelRequest({ turn: 2, messages: [...OPENING, ...turnMessages(1, first, [denied])] }));
      expect(lastEcho().results).toHaveLength(1);
    });

    test('arguments nested so deeply that they end the stack are never taken for a lost connection', async () => {
      bench.reply(said([{ ...CALL, json: nested(50_000) }]));
      // Which of the two depends on the stack of the machine.
      const ended = await bench
        .model()
        .step(modelRequest())
        .then(
          ({ parts }) => (parts.some((part) => 'malformed' in part) ? 'malformed' : 'proposed'),
          (error: unknown) => (error instanceof CountersignError ? error.code : 'unknown'),
        );
      expect(['malformed', 'MODEL_OUTPUT_INVALID']).toContain(ended);
    });

    test('a tool called with no arguments at all is called with none', async () => {
      bench.reply(said([{ ...CALL, name: LIST_FILES.name, json: '{}' }]));
      const { parts } = await bench.model().step(modelRequest());
      expect(parts).toMatchObject([{ name: LIST_FILES.name, arguments: {} }]);
      expect(parts[0]).not.toHaveProperty('malformed');
    });

    test('a call of an answer cut at the limit is not one without arguments if nothing of them has come', async () => {
      const whole = { ...CALL, id: 'whole', name: LIST_FILES.name, json: '{}' };
      bench.reply(said([whole, { ...CALL, json: '' }], { finish: 'length' }));
      const { parts } = await bench.model().step(modelRequest());
      expect(parts).toMatchObject([
        { name: LIST_FILES.name, arguments: {} },
        { name: CALL.name, arguments: {}, malformed: 'the call was cut off' },
      ]);
      expect(parts[0]).not.toHaveProperty('malformed');
    });

    test('an answer cut at the limit says so', async () => {
      bench.reply(said([{ type: 'text', text: 'It was a dark and' }], { finish: 'length' }));
      expect(await bench.model().step(modelRequest())).toMatchObject({ finish: 'length' });
    });

    test('a refusal in words is refused, with its words', async () => {
      bench.reply(said([{ type: 'text', text: 'I cannot.' }], { finish: 'refused' }));
      expect(await bench.model().step(modelRequest())).toMatchObject({
        finish: 'refused',
        parts: [{ type: 'text', text: 'I cannot.' }],
      });
    });

    test('an answer the provider withheld is refused, and its calls are not proposed', async () => {
      bench.reply(said([{ type: 'text', text: 'I cannot.' }, CALL], { finish: 'refused' }));
      const answer = await bench.model().step(modelRequest());
      expect(answer.finish).toBe('refused');
      expect(answer.parts.some(({ type }) => type === 'call')).toBe(false);
    });

    test('the output schema stands in the instructions', async () => {
      bench.reply(said([TEXT]));
      await bench.model().step(modelRequest({ output: { type: 'object', required: ['verdict'] } }));
      expect(lastEcho().system).toContain('You look after files.');
      expect(lastEcho().system).toContain('"required":["verdict"]');
    });

    test('instructions that come later in a run are said as a user', async () => {
      bench.reply(said([TEXT]), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      const messages: Message[] = [...OPENING, ...turnMessages(1, first, []), { role: 'system', text: 'Repair it.' }];
      await bench.model().step(modelRequest({ turn: 2, messages }));
      expect(lastEcho().texts).toEqual(['What is in a.txt?', 'Done.', 'Repair it.']);
    });

    test('B-17: a long conversation is a valid request, each call with its result', async () => {
      const said120 = Array.from({ length: 120 }, (_, index) => index + 1);
      bench.reply(said([{ type: 'reasoning', text: '', seal: 's' }, CALL, { ...CALL, id: 'call_b1' }]), said([TEXT]));
      const { parts, ...answer } = await bench.model().step(modelRequest());
      const turns = said120.flatMap((turn) => {
        const renamed = parts.map((part) =>
          part.type === 'call' ? { ...part, providerCallId: `${part.providerCallId}_${turn}` } : part,
        );
        return turnMessages(turn, { ...answer, parts: renamed }, []);
      });
      await bench.model().step(modelRequest({ turn: 121, messages: [...OPENING, ...turns] }));
      const { calls, results } = lastEcho();
      expect(calls).toHaveLength(240);
      expect(results.map(({ id }) => id)).toEqual(calls);
    });

    test('B-17: ids that a provider uses twice are made unique, and still pair calls with results', async () => {
      bench.reply(said([CALL]), said([CALL, { ...CALL, id: 'call_a3' }]), said([TEXT]));
      const first = await bench.model().step(modelRequest());
      const afterFirst = [...OPENING, ...turnMessages(1, first, [])];
      const second = await bench.model().step(modelRequest({ turn: 2, messages: afterFirst }));
      await bench.model().step(modelRequest({ turn: 3, messages: [...afterFirst, ...turnMessages(2, second, [])] }));
      const { calls, results } = lastEcho();
      expect(calls).toEqual(['call_a1', 't2_c0', 'call_a3']);
      expect(results.map(({ id }) => id)).toEqual(calls);
    });

    test('INV-S1: nothing is written to the console, not even of reasoning that another provider gave', async () => {
      const lines = (['log', 'info', 'warn', 'error'] as const).map((level) => jest.spyOn(console, level));
      const foreign = { type: 'reasoning', text: 'Thought elsewhere.', provider: { elsewhere: { id: 'x' } } } as const;
      const messages: Message[] = [
        ...OPENING,
        { role: 'assistant', parts: [foreign, TEXT] },
        { role: 'user', text: 'And?' },
      ];
      bench.reply(said([{ type: 'reasoning', text: 'Hm.', seal: 's' }, CALL]));
      await bench.model().step(modelRequest({ messages }));
      for (const line of lines) expect(line).not.toHaveBeenCalled();
      jest.restoreAllMocks();
    });
  });
}

// How every adapter of a provider fails: with a code that says whether to ask again, and without a secret.

const KEY_FORMS = [
  API_KEY,
  Buffer.from(API_KEY).toString('base64').replace(/=+$/, ''),
  Buffer.from(API_KEY).toString('base64url'),
  encodeURIComponent(API_KEY),
];
const ECHOED_KEY = KEY_FORMS.join(' ');
const PROMPT = 'What is in a.txt?';

export function refusalSuite(dialect: Dialect): void {
  describe(`refusals of ${dialect.provider}`, () => {
    let bench: ModelBench;
    beforeAll(async () => void (bench = await startModelBench(dialect)));
    afterAll(async () => bench.server.close());
    afterEach(() => {
      jest.useRealTimers();
      jest.restoreAllMocks();
    });

    const body = (type: string): string => dialect.errorBody(type, `${type}_code`, `${ECHOED_KEY} ${PROMPT}`);
    const refused = async (model = bench.model()): Promise<CountersignError> => {
      const before = bench.server.received.length;
      const error = await rejection(model.step(modelRequest()));
      expect(bench.server.received).toHaveLength(before + 1);
      expect(error).toBeInstanceOf(CountersignError);
      // Sound: asserted the line before.
      return error as CountersignError;
    };
    const expectNoSecret = (error: unknown): void => {
      const printed = `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)}`;
      for (const form of [...KEY_FORMS, 'CANARY', PROMPT, 'You look after files']) expect(printed).not.toContain(form);
    };

    test.each([
      [400, 'invalid_request_error'],
      [401, 'authentication_error'],
      [403, 'permission_error'],
      [404, 'not_found_error'],
      [413, 'request_too_large'],
      [422, 'invalid_request_error'],
    ])('HTTP %i is final, and the error names status and kind', async (status, type) => {
      bench.server.enqueue(failed(status, body(type), { 'x-request-id': 'req_77', 'request-id': 'req_77' }));
      const error = await refused();
      expect(error.code).toBe('MODEL_REJECTED');
      expect(error.message).toContain(`HTTP ${status}`);
      expect(error.message).toContain(type);
      expect(error.message).toContain('main');
      expect(error.facts).toMatchObject({ status, providerError: type, requestId: 'req_77' });
      expect(error.facts).not.toHaveProperty('retryAfterMs');
      expectNoSecret(error);
    });

    test.each([
      [429, { 'retry-after': '7' }, 7_000],
      [503, { 'retry-after': '999999' }, 3_600_000],
      [529, {}, undefined],
      [500, {}, undefined],
      [408, {}, undefined],
      [409, {}, undefined],
    ])('HTTP %i with %j may pass and is left to Temporal', async (status, headers, retryAfterMs) => {
      bench.server.enqueue(failed(status, body('overloaded_error'), headers));
      const error = await refused();
      expect(error.code).toBe('MODEL_UNAVAILABLE');
      expect(error.facts['retryAfterMs']).toBe(retryAfterMs);
      expect(error.facts).toMatchObject({ status });
      expectNoSecret(error);
    });

    test('an error that is no JSON is told by its status', async () => {
      bench.server.enqueue(failed(502, `<html>${ECHOED_KEY}</html>`), failed(405, `<html>${ECHOED_KEY}</html>`));
      const first = await refused();
      const second = await refused();
      expect([first.code, second.code]).toEqual(['MODEL_UNAVAILABLE', 'MODEL_REJECTED']);
      for (const error of [first, second]) expectNoSecret(error);
    });

    test('a redirect is not followed: it would take the key elsewhere', async () => {
      bench.server.enqueue(failed(307, '', { location: `${bench.server.baseUrl}/elsewhere` }));
      const error = await refused();
      expect(error).toMatchObject({ code: 'MODEL_REJECTED', facts: { status: 307 } });
    });

    test('an error event before and after the first words may pass', async () => {
      const [start = '', ...rest] = dialect.events(said([{ type: 'text', text: 'Once upon' }]));
      const failure = dialect.errorEvent('overloaded_error', `${ECHOED_KEY} ${PROMPT}`);
      bench.server.enqueue(answered([start, failure]), answered([start, ...rest.slice(0, 4), failure]));
      for (const error of [await refused(), await refused()]) {
        expect(error.code).toBe('MODEL_UNAVAILABLE');
        expectNoSecret(error);
      }
    });

    test('an error event that will not pass is final, wherever it comes', async () => {
      const [start = '', ...rest] = dialect.events(said([{ type: 'text', text: 'Once upon' }]));
      const failure = dialect.errorEvent('invalid_request_error', ECHOED_KEY);
      bench.server.enqueue(answered([start, ...rest.slice(0, 4), failure]), answered([failure]));
      for (const error of [await refused(), await refused()]) {
        expect(error).toMatchObject({ code: 'MODEL_REJECTED', facts: { status: 400 } });
        expect(error.message).toContain('invalid_request_error');
        expectNoSecret(error);
      }
    });

    test('an answer that ends before its end is no answer', async () => {
      const events = dialect.events(said([{ type: 'text', text: 'Half' }]));
      // Without what says that it is complete: the last events, or with chat completions the finish reason before them.
      for (const kept of [1, 3, events.length - (dialect.provider === 'openai-compatible' ? 3 : 1)]) {
        bench.server.enqueue(answered(events.slice(0, kept)));
        expect(await refused()).toMatchObject({ code: 'MODEL_UNAVAILABLE' });
      }
    });

    test('an answer that is no stream is read, since asking again would pay again', async () => {
      const json = { 'content-type': 'application/json; charset=utf-8' };
      const page = { 'content-type': 'text/html' };
      const events = dialect.events(said([{ type: 'text', text: 'Whole' }]));
      bench.server.enqueue(
        failed(200, `{"choices":[{"message":{"content":"${ECHOED_KEY}"}}]}`, json),
        failed(200, body('invalid_request_error'), json),
        failed(200, body('overloaded_error'), json),
        failed(200, `<html>${ECHOED_KEY}</html>`, page),
        failed(200, events.join(''), json),
      );
      const errors = [await refused(), await refused(), await refused(), await refused()];
      expect(errors.map(({ code }) => code)).toEqual([
        'MODEL_OUTPUT_INVALID',
        'MODEL_REJECTED',
        'MODEL_UNAVAILABLE',
        'MODEL_UNAVAILABLE',
      ]);
      for (const index of [0, 3]) expect(errors[index]?.message).toMatch(/check its baseUrl/i);
      for (const error of errors) expectNoSecret(error);
      // Events count as such, whatever they are called.
      expect((await bench.model().step(modelRequest())).parts).toMatchObject([{ type: 'text', text: 'Whole' }]);
    });

    test('an error that a document states in words alone may pass', async () => {
      bench.server.enqueue(failed(200, `{"error":"overloaded ${ECHOED_KEY}"}`, { 'content-type': 'application/json' }));
      const error = await refused();
      expect(error.code).toBe('MODEL_UNAVAILABLE');
      expectNoSecret(error);
    });

    test('bytes that are no events are no answer', async () => {
      bench.server.enqueue(answered(['data: {"never": "mind"\n\n', `<html>${ECHOED_KEY}</html>\n\n`]));
      const error = await refused();
      expect(error.code).toBe('MODEL_UNAVAILABLE');
      expectNoSecret(error);
    });

    test('a connection that breaks before or in an answer may be tried again', async () => {
      const events = dialect.events(said([{ type: 'text', text: 'Half' }]));
      bench.server.enqueue(answered([], 'reset'), answered(events.slice(0, 3), 'reset'));
      for (const error of [await refused(), await refused()]) {
        expect(error.code).toBe('MODEL_UNAVAILABLE');
        expectNoSecret(error);
      }
    });

    test('a provider that is not there may come back', async () => {
      const gone = await startModelBench(dialect);
      await gone.server.close();
      const error = await rejection(gone.model().step(modelRequest()));
      expect(error).toMatchObject({ code: 'MODEL_UNAVAILABLE', facts: { providerError: 'ECONNREFUSED' } });
      expectNoSecret(error);
    });

    test.each([0, 3])('aborting after %i events ends the request with the reason of the signal', async (count) => {
      const stop = new AbortController();
      const reason = new Error('cancelled by the run');
      bench.server.enqueue(
        answered(dialect.events(said([{ type: 'text', text: 'A long story' }])).slice(0, count), 'hang'),
      );
      const outcome = rejection(bench.model().step(modelRequest({ signal: stop.signal })));
      const { left } = await bench.server.hanging();
      stop.abort(reason);
      expect(await outcome).toBe(reason);
      await left;
    });

    test('an answer that takes longer than the configured limit is given up', async () => {
      // The limit passes once the answer has begun, however slow this machine is.
      jest.useFakeTimers({ doNotFake: ['Date', 'nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] });
      bench.server.enqueue(answered(dialect.events(said([])).slice(0, 1), 'hang'));
      const outcome = rejection(bench.model({ timeoutSeconds: 60 }).step(modelRequest()));
      const { left } = await bench.server.hanging();
      jest.advanceTimersByTime(60_000);
      expect(await outcome).toMatchObject(withCode('MODEL_UNAVAILABLE', 'within 60 s'));
      await left;
    });

    test('B-17: a transcript with a call and no result is not sent', async () => {
      const call = { type: 'call', callId: 't1.c0', providerCallId: 'x', name: READ_FILE.name, arguments: {} } as const;
      const before = bench.server.received.length;
      const messages = [...OPENING, { role: 'assistant' as const, parts: [call] }];
      const error = await rejection(bench.model().step(modelRequest({ messages })));
      expect(error).toMatchObject({ code: 'INTERNAL', facts: { callId: 't1.c0' } });
      expectNoSecret(error);
      expect(bench.server.received).toHaveLength(before);
    });

    test('INV-S1: a key that the provider echoes stands nowhere in the answer', async () => {
      const json = JSON.stringify({ path: ECHOED_KEY, [API_KEY]: [API_KEY] });
      bench.reply(
        said([
          { type: 'reasoning', text: ECHOED_KEY, seal: API_KEY },
          { type: 'text', text: ECHOED_KEY },
          { type: 'call', id: 'c1', name: READ_FILE.name, json },
        ]),
      );
      const answer = await bench.model().step(modelRequest());
      const printed = JSON.stringify(answer);
      for (const form of KEY_FORMS) expect(printed).not.toContain(form);
      expect(answer.parts).toHaveLength(3);
    });

    test('INV-S1: nothing of a failure is written to the console', async () => {
      const lines = (['log', 'info', 'warn', 'error'] as const).map((level) => jest.spyOn(console, level));
      bench.server.enqueue(
        failed(400, body('invalid_request_error')),
        answered([dialect.errorEvent('api_error', ECHOED_KEY)]),
        answered([], 'reset'),
      );
      for (let count = 0; count < 3; count += 1) await refused();
      for (const line of lines) expect(line).not.toHaveBeenCalled();
    });
  });
}

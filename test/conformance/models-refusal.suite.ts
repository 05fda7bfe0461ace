/** How every adapter of a provider fails: with a code that says whether to ask again, and without a secret. */
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { CountersignError } from '../../contracts/errors.ts';
import { answered, API_KEY, failed, type ModelBench, rejection, startModelBench } from '../support/model-bench.ts';
import { type Dialect, said } from '../support/model-dialect.ts';
import { modelRequest, OPENING, READ_FILE } from '../support/model-request.ts';

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
    afterEach(() => void jest.restoreAllMocks());

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
      [429, { 'retry-after-ms': '1500', 'retry-after': '7' }, 1_500],
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

    test('an error event that will not pass is final', async () => {
      const [start = '', ...rest] = dialect.events(said([{ type: 'text', text: 'Once upon' }]));
      bench.server.enqueue(
        answered([start, ...rest.slice(0, 4), dialect.errorEvent('invalid_request_error', ECHOED_KEY)]),
      );
      const error = await refused();
      expect(error.code).toBe('MODEL_REJECTED');
      expectNoSecret(error);
    });

    test('an answer that ends before its end is no answer', async () => {
      const events = dialect.events(said([{ type: 'text', text: 'Half' }]));
      // Without what says that it is complete: the last events, or with chat completions the finish reason before them.
      for (const kept of [1, 3, events.length - (dialect.provider === 'openai-compatible' ? 3 : 1)]) {
        bench.server.enqueue(answered(events.slice(0, kept)));
        expect(await refused()).toMatchObject({ code: 'MODEL_UNAVAILABLE' });
      }
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
      bench.server.enqueue(answered(dialect.events(said([])).slice(0, 1), 'hang'));
      const outcome = rejection(bench.model({ timeoutSeconds: 0.1 }).step(modelRequest()));
      const { left } = await bench.server.hanging();
      expect(await outcome).toMatchObject({
        code: 'MODEL_UNAVAILABLE',
        message: expect.stringContaining('within 0.1 s'),
      });
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

/** What every adapter of a provider sends and reads, in the provider's own protocol. */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { CountersignError } from '../../contracts/errors.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { modelText } from '../../domain/views/model-text.ts';
import { API_KEY, type ModelBench, startModelBench } from '../support/model-bench.ts';
import { type Dialect, type Echo, said, type SaidPart } from '../support/model-dialect.ts';
import { EVERY_OUTCOME, LIST_FILES, modelRequest, OPENING, READ_FILE, turnMessages } from '../support/model-request.ts';

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

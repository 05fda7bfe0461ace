/** What every model of the port does, whatever stands behind it. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Model } from '../../activities/models/port.ts';
import type { Said } from '../support/model-dialect.ts';
import { said } from '../support/model-dialect.ts';
import { EVERY_OUTCOME, modelRequest, OPENING, READ_FILE, turnMessages } from '../support/model-request.ts';

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

    test('it reports progress', async () => {
      let progress = 0;
      const model = bench.modelThatSays(said([{ type: 'text', text: 'Yes.' }]));
      await model.step(modelRequest({ onProgress: () => void (progress += 1) }));
      expect(progress).toBeGreaterThan(0);
    });

    test('its answer is plain JSON', async () => {
      const model = bench.modelThatSays(said([{ type: 'reasoning', text: 'Hm.', seal: 'c2VhbA==' }, CALL_A]));
      const answer = await model.step(modelRequest());
      expect(JSON.parse(JSON.stringify(answer))).toStrictEqual(answer);
    });
  });
}

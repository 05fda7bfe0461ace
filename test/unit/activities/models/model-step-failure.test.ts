/** How the activity `modelStep` fails: with codes that Temporal acts on, and without a secret. */
import { describe, expect, jest, test } from '@jest/globals';
import type { ModelStepDependencies } from '../../../../activities/models/model-step.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { OPENING } from '../../../support/models/request.ts';
import { answer, failing, failureOfRun, saying } from '../../../support/models/step-bench.ts';

describe('failures of the step', () => {
  test('INV-D3: an unknown model is named and tried again: the run was admitted where it is known, so this worker is behind', async () => {
    const failure = await failureOfRun(saying(answer()), { model: 'other' });
    expect(failure).toMatchObject({
      type: 'MODEL_UNKNOWN',
      nonRetryable: false,
      message: expect.stringContaining('other'),
    });
  });

  test('carry code and facts, and the delay that the provider asked for', async () => {
    const facts = { status: 429, retryAfterMs: 7_000 };
    const failure = await failureOfRun(saying(failing(new CountersignError('MODEL_UNAVAILABLE', 'Busy.', facts))));
    expect(failure).toMatchObject({
      type: 'MODEL_UNAVAILABLE',
      nonRetryable: false,
      message: 'Busy.',
      details: [facts],
      nextRetryDelay: 7_000,
    });
  });

  test('that are final are not retried', async () => {
    const failure = await failureOfRun(saying(failing(new CountersignError('MODEL_REJECTED', 'No.'))));
    expect(failure).toMatchObject({ type: 'MODEL_REJECTED', nonRetryable: true });
    expect(failure.nextRetryDelay).toBeUndefined();
  });

  test('INV-S1: an unknown error gives its name and nothing that it says, and is final, since each try pays the model', async () => {
    const failure = await failureOfRun(saying(failing(new TypeError('token-CANARY'))));
    expect(failure).toMatchObject({
      type: 'INTERNAL',
      nonRetryable: true,
      message: expect.stringContaining('TypeError'),
    });
    expect(failure.cause).toBeUndefined();
    expect(`${failure.stack} ${JSON.stringify(failure)}`).not.toContain('CANARY');
  });

  test('to read conversation or tools are left to Temporal after some tries, without what they said', async () => {
    const broken = failing(new Error('10.0.0.1 CANARY'));
    const base = { length: 1, digest: 'd'.repeat(64) };
    for (const failure of [
      await failureOfRun({ ...saying(answer()), transcript: broken }, { base }),
      await failureOfRun({ ...saying(answer()), toolset: broken }),
    ]) {
      expect(failure).toMatchObject({
        type: 'ENGINE_UNAVAILABLE',
        nonRetryable: false,
        message: expect.stringContaining('5 tries'),
      });
      expect(failure.cause).toBeUndefined();
      expect(`${failure.stack}`).not.toContain('CANARY');
    }
  });

  test("a conversation that is not the run's is a fault, read once", async () => {
    const transcript = jest.fn<ModelStepDependencies['transcript']>(async () => OPENING);
    const failure = await failureOfRun(
      { ...saying(answer()), transcript },
      { base: { length: 2, digest: 'd'.repeat(64) } },
    );
    expect(failure).toMatchObject({ type: 'TRANSCRIPT_MISMATCH', nonRetryable: true });
    expect(transcript).toHaveBeenCalledTimes(1);
  });

  test('INV-D3: an artifact that is missing here is looked for again: another worker may have the store', async () => {
    const toolset = jest.fn(failing(new CountersignError('ARTIFACT_MISSING', 'Gone.')));
    expect(await failureOfRun({ ...saying(answer()), toolset })).toMatchObject({
      type: 'ARTIFACT_MISSING',
      nonRetryable: false,
      message: 'Gone.',
    });
    expect(toolset).toHaveBeenCalledTimes(5);
  });

  test('an artifact that is corrupt is not read again', async () => {
    const toolset = jest.fn(failing(new CountersignError('ARTIFACT_CORRUPT', 'Changed.')));
    expect(await failureOfRun({ ...saying(answer()), toolset })).toMatchObject({
      type: 'ARTIFACT_CORRUPT',
      nonRetryable: true,
    });
    expect(toolset).toHaveBeenCalledTimes(1);
  });

  test.each([
    ['in bytes, not characters', '\u6f22'.repeat(400_000), undefined],
    ['with its value beside it', JSON.stringify('x'.repeat(900_000)), { type: 'string' }],
  ])('INV-D2: an answer too large for a history is a named end: %s', async (_, text, output) => {
    const parts = [{ type: 'text', text } as const];
    const failure = await failureOfRun(saying(answer({ parts })), output === undefined ? {} : { output });
    expect({ type: failure.type, nonRetryable: failure.nonRetryable }).toEqual({
      type: 'MODEL_OUTPUT_INVALID',
      nonRetryable: true,
    });
    expect(failure.message).toContain('bytes');
  });
});

/** What the activity `modelStep` gives the model, what it makes of the answer, and how it fails. */
import { describe, expect, jest, test } from '@jest/globals';
import { CancelledFailure } from '@temporalio/common';
import type { ModelStepDependencies } from '../../../../activities/models/model-step.ts';
import type { ModelRequest } from '../../../../activities/models/port.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import type { JudgeResult } from '../../../../contracts/wire/run.ts';
import { EMPTY_DIGEST, extendDigest } from '../../../../domain/run/journal.ts';
import { OPENING } from '../../../support/models/request.ts';
import {
  answer,
  failing,
  failureOfRun,
  mockEnvironment,
  proposed,
  run,
  saying,
} from '../../../support/models/step-bench.ts';

const SEGMENT = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'application/json' };

describe('the step', () => {
  test('gives the model the conversation, and the tools under both of their names', async () => {
    const asked: ModelRequest[] = [];
    await run(saying(async (request) => (asked.push(request), answer())));
    expect(asked[0]).toMatchObject({
      turn: 3,
      messages: OPENING,
      tools: [
        {
          name: 'files__read_file',
          qualifiedName: 'files/read_file',
          description: 'Read',
          inputSchema: { type: 'object' },
        },
      ],
    });
    expect(asked[0]).not.toHaveProperty('output');
  });

  test("INV-D4: gives calls our ids, in the order of the proposals, and keeps the provider's beside them", async () => {
    const parts = [proposed('x'), { type: 'text', text: 'and' } as const, proposed('x', 'no object'), proposed('')];
    const result = await run(saying(answer({ parts, finish: 'calls' })));
    expect(result.parts.flatMap((part) => (part.type === 'call' ? [[part.callId, part.providerCallId]] : []))).toEqual([
      ['t3.c0', 'x'],
      ['t3.c1', 'x'],
      ['t3.c2', ''],
    ]);
    expect(result.malformed).toEqual({ 't3.c1': 'no object' });
    expect(JSON.stringify(result.parts)).not.toContain('no object');
    expect(result).toMatchObject({ finish: 'calls', usage: { inputTokens: 1, outputTokens: 1 } });
  });

  test('reads what it does not know from its own run, and the segment that the run names', async () => {
    const stored: Message[] = [...OPENING, { role: 'user', text: 'more' }];
    const transcript = jest.fn<ModelStepDependencies['transcript']>(async (_workflow, _run, wanted) =>
      stored.slice(0, wanted),
    );
    const base = { length: 3, digest: stored.reduce(extendDigest, EMPTY_DIGEST), segment: SEGMENT };
    const asked: ModelRequest[] = [];
    await run(
      { ...saying(async (request) => (asked.push(request), answer())), transcript },
      { base, tail: [{ role: 'user', text: 'last' }] },
    );
    expect(asked[0]?.messages).toEqual([...stored, { role: 'user', text: 'last' }]);
    expect(transcript.mock.calls).toEqual([['run-1', 'execution-1', 3, SEGMENT]]);
  });

  test('reads again what the engine was too busy to give', async () => {
    const digest = OPENING.reduce(extendDigest, EMPTY_DIGEST);
    let tries = 0;
    const transcript = async (): Promise<readonly Message[]> => {
      tries += 1;
      if (tries < 3) throw new Error('14 UNAVAILABLE');
      return OPENING;
    };
    await run({ ...saying(answer()), transcript }, { base: { length: 2, digest }, tail: [] });
    expect(tries).toBe(3);
  });
});

describe('the verdicts', () => {
  const judged = (description: string) => async (): Promise<JudgeResult> => ({
    policyVersion: 'v',
    judgements: [{ callId: 't3.c0', repeatable: false, description, verdict: { kind: 'allow', rules: [] } }],
  });
  const proposes = saying(answer({ parts: [proposed('x')], finish: 'calls' }));

  test('are returned with the answer', async () => {
    expect((await run({ ...proposes, judge: judged('short') })).judged).toMatchObject({ policyVersion: 'v' });
  });

  test('INV-D2: are left to the run where one payload would not hold them: the answer is paid for and kept', async () => {
    const result = await run({ ...proposes, judge: judged('\u6f22'.repeat(600_000)) });
    expect(result.judged === undefined).toBe(true);
    expect(result.parts).toHaveLength(1);
  });
});

describe('an output schema', () => {
  const output = { type: 'object', required: ['n'] };

  test('is given to the model and checked where the answer ends the run', async () => {
    const asked: ModelRequest[] = [];
    const text = (said: string) =>
      saying(
        async (request) => (
          asked.push(request),
          answer({
            parts: [
              { type: 'reasoning', text: '{' },
              { type: 'text', text: said },
            ],
          })
        ),
      );
    expect((await run(text('{"n":1}'), { output })).output).toEqual({ kind: 'valid', value: { n: 1 } });
    expect((await run(text('{}'), { output })).output).toMatchObject({ kind: 'invalid' });
    expect(asked[0]?.output).toEqual(output);
  });

  test.each(['{"n":1e999}', '{"n":12345678901234567}', '```json\n{"n":1,"id":12345678901234567}\n```'])(
    'refuses a number that its reader would not get as the model wrote it: %s',
    async (text) => {
      const said = saying(answer({ parts: [{ type: 'text', text }] }));
      expect((await run(said, { output })).output).toEqual({
        kind: 'invalid',
        errors: [expect.stringContaining('number')],
      });
    },
  );

  test('is not checked where calls follow, or where the run has none', async () => {
    expect(await run(saying(answer({ parts: [proposed('x')], finish: 'calls' })), { output })).not.toHaveProperty(
      'output',
    );
    expect(await run(saying(answer()))).not.toHaveProperty('output');
  });
});

describe('while it waits', () => {
  test('cancelling the activity aborts the request and ends as cancelled, whatever the model throws then', async () => {
    const environment = mockEnvironment();
    const waiting = saying(async ({ signal }) => {
      environment.cancel('CANCELLED');
      expect(signal.aborted).toBe(true);
      throw new CountersignError('MODEL_UNAVAILABLE', 'The connection broke.');
    });
    await expect(run(waiting, {}, environment)).rejects.toBeInstanceOf(CancelledFailure);
  });

  test('it beats every two seconds until it ends, so that a short step costs no heartbeat', async () => {
    const environment = mockEnvironment();
    let beats = 0;
    environment.on('heartbeat', () => (beats += 1));
    jest.useFakeTimers();
    try {
      const slow = saying(async () => {
        jest.advanceTimersByTime(6_000);
        return answer();
      });
      await run(slow, {}, environment);
      jest.advanceTimersByTime(60_000);
      expect(beats).toBe(3);
    } finally {
      jest.useRealTimers();
    }
  });
});

// How the activity `modelStep` fails: with codes that Temporal acts on, and without a secret.

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

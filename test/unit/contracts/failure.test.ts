/** A code crosses Temporal and comes back as it was, with its message and its facts. */
import { describe, expect, test } from '@jest/globals';
import {
  ActivityFailure,
  ApplicationFailure,
  defaultPayloadConverter,
  DefaultFailureConverter,
  RetryState,
} from '@temporalio/common';
import { CountersignError, type ErrorCode, ERRORS, traitsOf } from '../../../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../../../contracts/failure.ts';

// Sound: the keys of the table are the codes.
const CODES = Object.keys(ERRORS) as ErrorCode[];

/** As one process gets what another one threw. */
function received(error: unknown): Error {
  const converter = new DefaultFailureConverter();
  return converter.failureToError(converter.errorToFailure(error, defaultPayloadConverter), defaultPayloadConverter);
}

describe('a coded failure', () => {
  test.each(CODES)('%s survives the wire', (code) => {
    const facts = { path: 'servers[0].url', callId: 't1.c0', decidedBy: 'ann' };
    const failure = received(failureOf(code, `It was ${code}.`, facts));
    expect(codedFailureIn(failure)).toEqual({ code, message: `It was ${code}.`, facts });
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect((failure as ApplicationFailure).nonRetryable).toBe(!traitsOf(code).retryable);
  });

  test('is found behind the failures in which Temporal wraps it', () => {
    const cause = failureOf('TOOL_UNAUTHORIZED', 'The server refused the token.', { callId: 't2.c1' });
    const wrapped = new ActivityFailure(
      'Activity task failed',
      'callTool',
      '7',
      RetryState.NON_RETRYABLE_FAILURE,
      'worker',
      cause,
    );
    expect(codedFailureIn(received(wrapped))).toEqual({
      code: 'TOOL_UNAUTHORIZED',
      message: 'The server refused the token.',
      facts: { callId: 't2.c1' },
    });
    expect(codedFailureIn(received(new Error('outer', { cause: wrapped })))?.code).toBe('TOOL_UNAUTHORIZED');
  });

  test('the outermost code counts, since it was chosen with more knowledge', () => {
    const cause = failureOf('TOKEN_UNAVAILABLE', 'inner');
    const outer = ApplicationFailure.create({ type: 'DISCOVERY_FAILED', message: 'outer', cause });
    expect(codedFailureIn(received(outer))).toMatchObject({ code: 'DISCOVERY_FAILED', message: 'outer' });
  });

  test('a delay before the next attempt is passed on to Temporal', () => {
    expect(failureOf('MODEL_UNAVAILABLE', 'busy', {}, 5_000).nextRetryDelay).toBe(5_000);
    expect(failureOf('MODEL_UNAVAILABLE', 'busy').nextRetryDelay).toBeUndefined();
  });

  test('who is free at once (`Retry-After: 0`) is not left for the longest interval, as Temporal reads a delay of 0', () => {
    expect(failureOf('MESSAGE_UNDELIVERED', 'busy', {}, 0).nextRetryDelay).toBeUndefined();
  });
});

describe('an error of our own', () => {
  test('is read as it is, also from deep inside', () => {
    const error = new CountersignError('SPEC_INVALID', 'agent.model is missing.', { path: 'agent.model' });
    const coded = { code: 'SPEC_INVALID', message: 'agent.model is missing.', facts: { path: 'agent.model' } };
    expect(codedFailureIn(error)).toEqual(coded);
    expect(codedFailureIn(new Error('outer', { cause: new Error('middle', { cause: error }) }))).toEqual(coded);
  });

  test('carries its code, its facts, its traits and its cause', () => {
    const cause = new Error('connection refused');
    const error = new CountersignError('ENGINE_UNAVAILABLE', 'No answer.', {}, { cause });
    expect(error.name).toBe('CountersignError');
    expect(error.traits).toEqual({ retryable: true, httpStatus: 503, exitCode: 6 });
    expect(error.cause).toBe(cause);
    expect(new CountersignError('INTERNAL', 'x').facts).toEqual({});
  });
});

describe('what carries no code', () => {
  test('gives none: not an ordinary error, not a foreign type, not a value', () => {
    for (const value of [
      new Error('x'),
      ApplicationFailure.create({ type: 'Error', message: 'x' }),
      'INTERNAL',
      undefined,
      null,
      7,
    ]) {
      expect(codedFailureIn(value)).toBeUndefined();
    }
  });

  test.each(['constructor', '__proto__', 'toString', 'internal', ''])('the type %s is no code', (type) => {
    expect(codedFailureIn(ApplicationFailure.create({ type, message: 'x' }))).toBeUndefined();
  });

  test('a circle of causes ends', () => {
    const one: { cause?: unknown } = {};
    one.cause = { cause: one };
    expect(codedFailureIn(one)).toBeUndefined();
  });

  test('a code without message or facts, as another language may send it, is still a code', () => {
    expect(codedFailureIn({ type: 'TOOL_FAILED' })).toEqual({ code: 'TOOL_FAILED', message: 'TOOL_FAILED', facts: {} });
    for (const details of [[], [null], ['text'], 'text']) {
      expect(codedFailureIn({ type: 'TOOL_FAILED', message: 'm', details })).toEqual({
        code: 'TOOL_FAILED',
        message: 'm',
        facts: {},
      });
    }
  });
});

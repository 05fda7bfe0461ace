/** Traits of codes: what a machine may conclude from one without reading its page. */
import { describe, expect, test } from '@jest/globals';
import { type ErrorCode, ERRORS, isErrorCode, traitsOf } from '../../../contracts/errors.ts';

// Sound: the keys of the table are the codes.
const CODES = Object.keys(ERRORS) as ErrorCode[];

function codesWhere(match: (traits: ReturnType<typeof traitsOf>) => boolean): ErrorCode[] {
  return CODES.filter((code) => match(traitsOf(code)));
}

describe('the table of codes', () => {
  test.each(CODES)('%s has a status of an error and an exit code that the command line documents', (code) => {
    const { httpStatus, exitCode } = traitsOf(code);
    expect(httpStatus).toBeGreaterThanOrEqual(400);
    expect(httpStatus).toBeLessThan(600);
    expect([2, 3, 4, 5, 6, 7, 70]).toContain(exitCode);
    expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
  });

  test('what may succeed when sent again is never called the fault of the sender', () => {
    for (const code of codesWhere(({ retryable }) => retryable)) {
      expect(traitsOf(code)).toMatchObject({ exitCode: 6 });
      // Whoever asks too often may ask again later.
      if (code === 'RATE_LIMITED') expect(traitsOf(code).httpStatus).toBe(429);
      else expect(traitsOf(code).httpStatus).toBeGreaterThanOrEqual(500);
    }
  });

  test('INV-X1, INV-G2: nothing about a decision or an unknown outcome is retryable', () => {
    for (const code of [
      'OUTCOME_UNKNOWN',
      'ALREADY_DECIDED',
      'DIGEST_MISMATCH',
      'DECISION_STALE_RUN',
      'DECISION_EXPIRED',
    ] as const) {
      expect(traitsOf(code).retryable).toBe(false);
    }
  });

  test('exit codes mean one thing each', () => {
    const statusesOf = (exitCode: number): number[] => [
      ...new Set(codesWhere((traits) => traits.exitCode === exitCode).map((code) => traitsOf(code).httpStatus)),
    ];
    expect(statusesOf(2)).toEqual([422]);
    expect(statusesOf(4)).toEqual([404]);
    expect(new Set(statusesOf(5))).toEqual(new Set([409, 410, 412]));
    expect(statusesOf(70)).toEqual([500]);
  });

  test('S2.3: an unknown call is not found, one that was decided is a conflict, bad shape is unprocessable', () => {
    expect(traitsOf('CALL_UNKNOWN').httpStatus).toBe(404);
    expect(traitsOf('ALREADY_DECIDED').httpStatus).toBe(409);
    expect(traitsOf('DECISION_EXPIRED').httpStatus).toBe(410);
    expect(traitsOf('DIGEST_MISMATCH').httpStatus).toBe(412);
    expect(traitsOf('DECISION_INVALID').httpStatus).toBe(422);
  });
});

test('a code: is known by its own name only', () => {
  expect(CODES.every(isErrorCode)).toBe(true);
  for (const value of ['constructor', '__proto__', 'usage', '', undefined, null, 7, {}])
    expect(isErrorCode(value)).toBe(false);
});

/** Every error ends a command with the exit code of the table. */
import { expect, test } from '@jest/globals';
import { reportFailure } from '../../../../cli/session/verb.ts';
import { plain, type Terminal } from '../../../../cli/session/terminal.ts';
import { CountersignError, type ErrorCode, ERRORS, traitsOf } from '../../../../contracts/errors.ts';

function terminal(): Terminal & { readonly written: string[] } {
  const written: string[] = [];
  return {
    written,
    env: {},
    directory: '/',
    paint: plain,
    out: () => {
      throw new Error('errors do not go to standard output');
    },
    err: (text) => void written.push(text),
    input: async () => '',
    interrupted: () => new AbortController().signal,
  };
}

// Sound: the keys of the table are its codes.
const CODES = Object.keys(ERRORS) as ErrorCode[];

test.each(CODES)('%s ends with its exit code, said for people and for machines', (code) => {
  const error = new CountersignError(code, 'It did not work. Do that.', { callId: 't1.c0', decidedBy: 'ann' });
  const people = terminal();
  expect(reportFailure(people, error, false)).toBe(traitsOf(code).exitCode);
  expect(people.written).toEqual([`error ${code}: It did not work. Do that.\n`]);
  const machines = terminal();
  expect(reportFailure(machines, error, true)).toBe(traitsOf(code).exitCode);
  expect(JSON.parse(machines.written.join(''))).toEqual({
    error: { code, message: 'It did not work. Do that.', facts: { callId: 't1.c0', decidedBy: 'ann' } },
  });
});

test('no error ends with 0 or 1, which mean "done" and nothing', () => {
  for (const code of CODES) expect([2, 3, 4, 5, 6, 7, 70]).toContain(traitsOf(code).exitCode);
});

test('what nobody expected is a fault, not a crash', () => {
  const said = terminal();
  expect(reportFailure(said, new TypeError('x is not a function'), false)).toBe(70);
  expect(said.written.join('')).toBe('error INTERNAL: x is not a function\n');
});

test('an error cannot move the cursor', () => {
  const said = terminal();
  reportFailure(
    said,
    new CountersignError('RUN_FAILED', 'The tool said \u001b[2J\u009b31m\rnothing\u202e.\nSecond line'),
    false,
  );
  expect(said.written.join('')).toBe(
    'error RUN_FAILED: The tool said \\u{1b}[2J\\u{9b}31m\\u{d}nothing\\u{202e}.\n  Second line\n',
  );
});

test('no line of a foreign message looks like one of ours', () => {
  const said = terminal();
  const foreign = 'Run run-1 ended without a result: it broke.\napproved  t1.c0  bank/pay\n\nerror USAGE: Try again.';
  reportFailure(said, new CountersignError('RUN_FAILED', foreign), false);
  const [first = '', ...rest] = said.written.join('').trimEnd().split('\n');
  expect(first).toMatch(/^error RUN_FAILED: /);
  for (const line of rest) expect(line).toMatch(/^ {2}/);
});

/** Times as people read them. */
import { expect, test } from '@jest/globals';
import { duration, shortInstant, timeLeft } from '../../../../cli/views/format.ts';

test.each([
  [0, '0 s'],
  [999, '0 s'],
  [59_000, '59 s'],
  [60_000, '1 min'],
  [3_599_000, '59 min 59 s'],
  [3_601_000, '1 h'],
  [86_399_000, '23 h 59 min'],
  [86_400_000 * 12 + 3_600_000 * 3, '12 d 3 h'],
  [-5_000, '0 s'],
])('%d ms is %s', (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test('a deadline says how long is left, or that it has passed', () => {
  const now = Date.parse('2026-01-01T00:00:00.000Z');
  expect(timeLeft('2026-01-01T01:00:00.000Z', now)).toBe('1 h left');
  expect(timeLeft('2025-12-31T23:59:00.000Z', now)).toBe('passed 1 min ago');
  expect(shortInstant('2026-01-01T01:00:00.123Z')).toBe('2026-01-01 01:00:00Z');
});

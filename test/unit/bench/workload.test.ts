/** The tool server of the bench knows which run a call is of. */
import { expect, test } from '@jest/globals';
import { runOf } from '../../../bench/workload.ts';

test.each([
  ['this service', 'load-7/t3.c0/0123456789abcdef'],
  ['the raw workflow', 'load-7/3'],
])('an idempotency key of %s begins with the run', (_whose, key) => {
  expect(runOf(key)).toBe('load-7');
});

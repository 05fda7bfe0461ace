/** The bench believes no run whose calls did not arrive once each and in order. */
import { expect, test } from '@jest/globals';
import { type Arrived, wrongRuns } from '../../../bench/lane.ts';
import { CALLS } from '../../../bench/workload.ts';

const inOrder = Array.from({ length: CALLS }, (_, index) => index + 1);

function arrived(run: string, steps: readonly number[]): Arrived[] {
  return steps.map((step, index) => ({ run, step, atMs: index }));
}

test('a run whose calls arrived once each and in order is right, whatever came between them', () => {
  const [first, ...others] = arrived('a', inOrder);
  const mixed = [...(first === undefined ? [] : [first]), ...arrived('b', inOrder), ...others];
  expect(wrongRuns(mixed, ['a', 'b'])).toBe(0);
});

test.each([
  ['missing', inOrder.slice(1)],
  ['repeated', [...inOrder, CALLS]],
  ['misplaced', inOrder.toReversed()],
  ['missing, all of them', []],
])('a run is wrong where a call is %s', (_what, steps) => {
  expect(wrongRuns([...arrived('a', steps), ...arrived('b', inOrder)], ['a', 'b'])).toBe(1);
});

test('a missing call of one run and a repeated one of another do not make up for each other', () => {
  const calls = [...arrived('a', inOrder.slice(1)), ...arrived('b', [1, ...inOrder])];
  expect(wrongRuns(calls, ['a', 'b'])).toBe(2);
});

test('calls of a run that nobody started are wrong too', () => {
  expect(wrongRuns([...arrived('a', inOrder), ...arrived('stranger', [1])], ['a'])).toBe(1);
});

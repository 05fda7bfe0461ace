/** A rate holds in every stretch of time, wherever it begins. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { rateOf, untilNext, within } from '../../../../activities/limits/server-limits.ts';

test.each([
  [5, { most: 5, windowMs: 1_000 }],
  [1, { most: 1, windowMs: 1_000 }],
  [0.5, { most: 1, windowMs: 2_000 }],
  [2.5, { most: 2, windowMs: 800 }],
  [0.001, { most: 1, windowMs: 1_000_000 }],
])('%s in a second', (perSecond, rate) => expect(rateOf(perSecond)).toEqual(rate));

test('the next waits until the oldest of those that count is gone, and behind those that wait already', () => {
  const rate = { most: 2, windowMs: 1_000 };
  expect(untilNext(rate, [], 0)).toBe(0);
  expect(untilNext(rate, [0], 10)).toBe(0);
  expect(untilNext(rate, [0, 400], 500)).toBe(500);
  expect(untilNext(rate, [0, 400], 500, 1)).toBe(900);
  expect(untilNext(rate, [0, 400], 500, 2)).toBe(1_500);
  expect(untilNext(rate, [0, 400], 1_000)).toBe(0);
});

test('times of the future, of a clock that was set back, do not count', () => {
  expect(within({ most: 1, windowMs: 1_000 }, [5_000], 10)).toEqual([]);
});

test('whoever comes whenever: never more than so many in any window', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.2, max: 20, noNaN: true }),
      fc.array(fc.nat(700), { minLength: 1, maxLength: 100 }),
      (perSecond, gaps) => {
        const rate = rateOf(perSecond);
        let begun: readonly number[] = [];
        const all: number[] = [];
        let now = 0;
        for (const gap of gaps) {
          now += gap;
          const wait = untilNext(rate, begun, now);
          // Told to wait, and that is how long it takes, to the millisecond.
          if (wait > 0) {
            expect(untilNext(rate, begun, now + wait - 1)).toBe(1);
            expect(untilNext(rate, begun, now + wait)).toBe(0);
            continue;
          }
          begun = [...within(rate, begun, now), now];
          all.push(now);
        }
        for (const from of all)
          expect(all.filter((at) => at >= from && at < from + rate.windowMs).length).toBeLessThanOrEqual(rate.most);
        // And on the whole no more than what was configured, but for the first window.
        expect(all.length).toBeLessThanOrEqual(rate.most + Math.ceil((now / 1_000) * perSecond));
      },
    ),
  );
});

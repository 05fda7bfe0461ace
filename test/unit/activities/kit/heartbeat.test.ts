/** Beats on a timer. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Heartbeat } from '../../../../activities/kit/activity.ts';

describe('the heartbeat of a step', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  test.each([
    [30_000, 10_000],
    [60_000, 10_000],
    [6_000, 2_000],
    [undefined, 10_000],
  ])('with a timeout of %s ms comes every %i ms until it is stopped', (timeoutMs, everyMs) => {
    let beats = 0;
    const heartbeat = new Heartbeat(() => void (beats += 1), timeoutMs);
    jest.advanceTimersByTime(3 * everyMs);
    expect(beats).toBe(4);
    heartbeat.stop();
    jest.advanceTimersByTime(10 * everyMs);
    expect(beats).toBe(4);
    expect(jest.getTimerCount()).toBe(0);
  });
});

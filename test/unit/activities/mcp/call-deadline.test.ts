/** The time of a call, which stands still while people are asked. */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { startDeadline } from '../../../../activities/mcp/mcp-server.ts';

let passed: number;
beforeEach(() => {
  jest.useFakeTimers();
  passed = 0;
});
afterEach(() => {
  jest.restoreAllMocks();
  jest.useRealTimers();
});

const start = (ms: number) => startDeadline(ms, () => (passed += 1));

test('it passes once, when its time is over', () => {
  start(100);
  jest.advanceTimersByTime(99);
  expect(passed).toBe(0);
  jest.advanceTimersByTime(1_000);
  expect(passed).toBe(1);
});

test('held, it stands still, and what was left is left afterwards', () => {
  const deadline = start(100);
  jest.advanceTimersByTime(60);
  const goOn = deadline.hold();
  jest.advanceTimersByTime(10_000);
  goOn();
  jest.advanceTimersByTime(39);
  expect(passed).toBe(0);
  jest.advanceTimersByTime(1);
  expect(passed).toBe(1);
});

test('held twice, it runs when both have let go; letting go twice is letting go once', () => {
  const deadline = start(100);
  const [one, other] = [deadline.hold(), deadline.hold()];
  one();
  one();
  jest.advanceTimersByTime(10_000);
  expect(passed).toBe(0);
  other();
  jest.advanceTimersByTime(100);
  expect(passed).toBe(1);
});

test('held again and again without a moment between, it passes all the same', () => {
  // The clock goes on, and no timer has its turn.
  let now = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  const deadline = start(100);
  for (let ms = 0; ms < 200; ms += 1) {
    deadline.hold()();
    now += 1;
  }
  expect(passed).toBe(1);
});

test('it knows for how long it stood still, and tells when it goes on', () => {
  let times = 0;
  const deadline = startDeadline(
    100,
    () => (passed += 1),
    () => (times += 1),
  );
  jest.advanceTimersByTime(60);
  expect(deadline.heldMs()).toBe(0);
  const [one, other] = [deadline.hold(), deadline.hold()];
  jest.advanceTimersByTime(1_000);
  expect(deadline.heldMs()).toBe(1_000);
  one();
  expect(times).toBe(0);
  jest.advanceTimersByTime(500);
  other();
  jest.advanceTimersByTime(20);
  expect(deadline.heldMs()).toBe(1_500);
  deadline.hold()();
  expect(times).toBe(2);
  const late = deadline.hold();
  deadline.stop();
  late();
  expect(times).toBe(2);
});

test('stopped, it passes no more, not even where it is let go afterwards', () => {
  const deadline = start(100);
  const goOn = deadline.hold();
  deadline.stop();
  goOn();
  jest.advanceTimersByTime(10_000);
  expect(passed).toBe(0);
});

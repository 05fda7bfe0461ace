/** A breaker: open, nothing passes; half-open, one call at a time; what began before it opened tells of the past. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Breaker, CLOSED, ended, type Health, mustWait, passed } from '../../../domain/breaker.ts';

const RULE = { failures: 3, withinMs: 10_000, openMs: 5_000 };

function after(breaker: Breaker, healths: readonly (readonly [at: number, health: Health])[]): Breaker {
  return healths.reduce((state, [at, health]) => ended(state, RULE, health, false, at), breaker);
}

describe('closed', () => {
  test('so many failures in a row open it, for as long as the rule says', () => {
    const open = after(CLOSED, [
      [1, 'down'],
      [2, 'down'],
      [3, 'down'],
    ]);
    expect(open).toEqual({ state: 'open', until: 5_003 });
    expect(mustWait(open, RULE, 3)).toBe(5_000);
    expect(mustWait(open, RULE, 5_002)).toBe(1);
    expect(mustWait(open, RULE, 5_003)).toBe(0);
  });

  test('a success in between, or too long a time, and they are not in a row', () => {
    expect(
      after(CLOSED, [
        [1, 'down'],
        [2, 'down'],
        [3, 'up'],
        [4, 'down'],
      ]),
    ).toEqual({ state: 'closed', failures: [4] });
    expect(
      after(CLOSED, [
        [1, 'down'],
        [2, 'down'],
        [10_001, 'down'],
      ]).state,
    ).toBe('closed');
  });

  test('what tells nothing of the server neither opens it nor clears it', () => {
    const once = after(CLOSED, [[1, 'down']]);
    expect(after(once, [[2, 'neutral']])).toBe(once);
    expect(after(CLOSED, [[2, 'up']])).toBe(CLOSED);
  });

  test('every call passes, and none of them tries', () => {
    expect(mustWait(CLOSED, RULE, 0)).toBe(0);
    expect(passed(CLOSED, 0)).toEqual({ breaker: CLOSED, tries: false });
  });
});

describe('open, and its time is over', () => {
  const open: Breaker = { state: 'open', until: 100 };
  const { breaker: half, tries } = passed(open, 100);

  test('one call tries; the others look again within a second', () => {
    expect(tries).toBe(true);
    expect(half).toEqual({ state: 'half-open', since: 100 });
    expect(mustWait(half, RULE, 101)).toBe(1_000);
    expect(mustWait(half, { ...RULE, openMs: 10 }, 101)).toBe(9);
  });

  test('it answers: closed. It fails: open again. It tells nothing: the next one tries at once', () => {
    expect(ended(half, RULE, 'up', true, 200)).toEqual(CLOSED);
    expect(ended(half, RULE, 'down', true, 200)).toEqual({ state: 'open', until: 5_200 });
    const unsure = ended(half, RULE, 'neutral', true, 200);
    expect(mustWait(unsure, RULE, 200)).toBe(0);
    expect(passed(unsure, 200).tries).toBe(true);
  });

  test('one that takes its time does not keep the others: another tries, and the first that ends decides', () => {
    expect(mustWait(half, RULE, 100 + 4_999)).toBe(1);
    expect(mustWait(half, RULE, 100 + 5_000)).toBe(0);
    expect(mustWait(half, RULE, 50)).toBe(0);
    const again = passed(half, 5_100);
    expect(again).toEqual({ breaker: { state: 'half-open', since: 5_100 }, tries: true });
    const closed = ended(again.breaker, RULE, 'up', true, 5_200);
    expect(closed).toEqual(CLOSED);
    expect(ended(closed, RULE, 'down', true, 5_300)).toEqual({ state: 'closed', failures: [5_300] });
    const reopened = ended(again.breaker, RULE, 'down', true, 5_200);
    expect(ended(reopened, RULE, 'up', true, 5_300)).toBe(reopened);
  });

  test('calls that began before tell of the past', () => {
    for (const health of ['up', 'down', 'neutral'] as const) {
      expect(ended(open, RULE, health, false, 50)).toBe(open);
      expect(ended(half, RULE, health, false, 150)).toBe(half);
    }
  });

  test('a clock that is set back holds nobody for longer than the rule', () => {
    expect(mustWait({ state: 'open', until: 1_000_000 }, RULE, 0)).toBe(RULE.openMs);
  });
});

test('whatever happens: nothing passes while it is open, and those that try begin as far apart as it stays open, or after one ended', () => {
  const step = fc.record({
    ms: fc.nat(4_000),
    what: fc.constantFrom('begin', 'up', 'down', 'neutral'),
    which: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let breaker: Breaker = CLOSED;
      let now = 0;
      let lastTry = 0;
      const running: boolean[] = [];
      for (const { ms, what, which } of steps) {
        now += ms;
        if (what === 'begin') {
          const wait = mustWait(breaker, RULE, now);
          if (breaker.state === 'open') expect(wait > 0).toBe(now < breaker.until);
          if (wait > 0) continue;
          const pass = passed(breaker, now);
          breaker = pass.breaker;
          if (pass.tries && running.includes(true)) expect(now - lastTry).toBeGreaterThanOrEqual(RULE.openMs);
          if (pass.tries) lastTry = now;
          running.push(pass.tries);
        } else if (running.length > 0) {
          const [tries = false] = running.splice(which % running.length, 1);
          breaker = ended(breaker, RULE, what, tries, now);
        }
        // Half-open means that somebody tries: else it would stay so for ever.
        if (breaker.state === 'half-open') expect(running).toContain(true);
      }
    }),
  );
});

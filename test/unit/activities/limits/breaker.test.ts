/** A breaker: open, nothing passes; half-open, one call at a time; what began before it opened tells of the past. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parse } from 'yaml';
import { z } from 'zod';
import { type Breaker, CLOSED, ended, mustWait, passed } from '../../../../activities/limits/breaker.ts';
import type { Health } from '../../../../activities/mcp/port.ts';
import { forAll, forMany } from '../../../support/for-all.ts';
import { readDeployed } from '../../../support/package/deployment.ts';

const RULE = { failures: 3, withinSeconds: 10, openSeconds: 5 };

const Alert = z.object({ alert: z.string(), expr: z.string(), for: z.string() });
const Alerts = z.object({ groups: z.array(z.object({ rules: z.array(Alert) })) });

type Told = readonly [at: number, health: Health, tenant?: string];

/** Calls that do not try. */
function after(breaker: Breaker, healths: readonly Told[]): Breaker {
  return healths.reduce(
    (state, [at, health, tenant = 'acme']) => ended(state, RULE, { tenant, health, tries: false }, at),
    breaker,
  );
}

const trial = (breaker: Breaker, health: Health, at: number, tenant = 'acme'): Breaker =>
  ended(breaker, RULE, { tenant, health, tries: true }, at);
const failed = (...times: readonly number[]) => times.map((at) => ({ at, tenant: 'acme' }));

describe('closed', () => {
  test('so many failures in a row open it, for as long as the rule says', () => {
    const open = after(CLOSED, [
      [1, 'down'],
      [2, 'down'],
      [3, 'down'],
    ]);
    expect(open).toEqual({ state: 'open', until: 5_003, by: 'acme' });
    expect(mustWait(open, RULE, 'acme', 3)).toBe(5_000);
    expect(mustWait(open, RULE, 'acme', 5_002)).toBe(1);
    expect(mustWait(open, RULE, 'acme', 5_003)).toBe(0);
  });

  test('a success in between, or too long a time, and they are not in a row', () => {
    expect(
      after(CLOSED, [
        [1, 'down'],
        [2, 'down'],
        [3, 'up'],
        [4, 'down'],
      ]),
    ).toEqual({ state: 'closed', failures: failed(4) });
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
    expect(mustWait(CLOSED, RULE, 'acme', 0)).toBe(0);
    expect(passed(CLOSED, 'acme', 0)).toEqual({ breaker: CLOSED, tries: false });
  });
});

describe('open, and its time is over', () => {
  const open: Breaker = { state: 'open', until: 100 };
  const { breaker: half, tries } = passed(open, 'acme', 100);

  test('one call tries; the others look again within a second', () => {
    expect(tries).toBe(true);
    expect(half).toEqual({ state: 'half-open', since: 100, tenant: 'acme' });
    expect(mustWait(half, RULE, 'acme', 101)).toBe(1_000);
    expect(mustWait(half, { ...RULE, openSeconds: 0.01 }, 'acme', 101)).toBe(9);
  });

  test('it answers: closed. It fails: open again. It tells nothing: the next one tries at once', () => {
    expect(trial(half, 'up', 200)).toEqual(CLOSED);
    expect(trial(half, 'down', 200)).toEqual({ state: 'open', until: 5_200, by: 'acme' });
    const unsure = trial(half, 'neutral', 200);
    expect(mustWait(unsure, RULE, 'acme', 200)).toBe(0);
    expect(passed(unsure, 'acme', 200).tries).toBe(true);
  });

  test('one that takes its time does not keep the others: another tries, and the first that ends decides', () => {
    expect(mustWait(half, RULE, 'acme', 100 + 4_999)).toBe(1);
    expect(mustWait(half, RULE, 'acme', 100 + 5_000)).toBe(0);
    const again = passed(half, 'acme', 5_100);
    expect(again).toEqual({ breaker: { state: 'half-open', since: 5_100, tenant: 'acme' }, tries: true });
    const closed = trial(again.breaker, 'up', 5_200);
    expect(closed).toEqual(CLOSED);
    expect(trial(closed, 'down', 5_300)).toEqual({ state: 'closed', failures: failed(5_300) });
    const reopened = trial(again.breaker, 'down', 5_200);
    expect(trial(reopened, 'up', 5_300)).toBe(reopened);
  });

  test('calls that began before tell of the past', () => {
    for (const health of ['up', 'down', 'neutral'] as const) {
      expect(after(open, [[50, health]])).toBe(open);
      expect(after(half, [[150, health]])).toBe(half);
    }
  });
});

describe('of one tenant alone', () => {
  const open = after(CLOSED, [
    [1, 'down', 'eve'],
    [2, 'down', 'eve'],
    [3, 'down', 'eve'],
  ]);
  const waits = (breaker: Breaker, now: number) => [
    mustWait(breaker, RULE, 'eve', now) > 0,
    mustWait(breaker, RULE, 'acme', now) > 0,
  ];

  test('holds back that tenant; a call of another one tries at once, and closes it for both', () => {
    expect(open).toMatchObject({ state: 'open', by: 'eve' });
    expect(waits(open, 3)).toEqual([true, false]);
    const half = passed(open, 'acme', 4).breaker;
    expect(waits(half, 4)).toEqual([true, true]);
    expect(trial(half, 'up', 5)).toBe(CLOSED);
  });

  test('everybody waits where the other one fails, too; then each of two may try, and no third', () => {
    const both = trial(passed(open, 'acme', 4).breaker, 'down', 5);
    expect(both).toEqual({ state: 'open', until: 5_005 });
    expect(waits(both, 5)).toEqual([true, true]);
    const eve = trial(passed(both, 'eve', 5_005).breaker, 'down', 5_006, 'eve');
    expect(waits(eve, 5_006)).toEqual([true, false]);
    const again = trial(passed(eve, 'acme', 5_007).breaker, 'down', 5_008);
    expect(again).toEqual({ state: 'open', until: 10_008 });
  });

  test('failures of two tenants in one row open it for everybody', () => {
    const mixed = after(CLOSED, [
      [1, 'down', 'eve'],
      [2, 'down', 'acme'],
      [3, 'down', 'eve'],
    ]);
    expect(mixed).toEqual({ state: 'open', until: 5_003 });
  });

  test('a slow call of that tenant that tries does not hold the other; one of the other holds others', () => {
    const half = passed(open, 'eve', 5_003).breaker;
    expect(waits(half, 5_004)).toEqual([true, false]);
    const other = passed(half, 'acme', 5_004).breaker;
    expect(waits(other, 5_005)).toEqual([true, true]);
    // It is over, and nothing is known: both may try.
    expect(waits(trial(other, 'neutral', 5_006), 5_006)).toEqual([false, false]);
    // Still the word of one.
    expect(trial(trial(other, 'neutral', 5_006), 'down', 5_007)).toMatchObject({ by: 'eve' });
  });

  test('whatever it does: who calls without failing waits for a call of the like at the most', () => {
    const step = fc.record({
      ms: fc.nat(4_000),
      tenant: fc.constantFrom('eve', 'acme', 'ben'),
      what: fc.constantFrom('begin', 'begin', 'end'),
      isDown: fc.boolean(),
      which: fc.nat(),
    });
    forMany({ numRuns: 1_000 }, fc.array(step, { maxLength: 80 }), (steps) => {
      let breaker: Breaker = CLOSED;
      let now = 0;
      const running: { readonly tenant: string; readonly tries: boolean }[] = [];
      for (const { ms, tenant, what, isDown, which } of steps) {
        now += ms;
        const wait = mustWait(breaker, RULE, tenant, now);
        if (what === 'begin' && wait > 0 && tenant !== 'eve')
          expect(running.some((call) => call.tries && call.tenant !== 'eve')).toBe(true);
        if (what === 'begin' && wait === 0) {
          const pass = passed(breaker, tenant, now);
          breaker = pass.breaker;
          running.push({ tenant, tries: pass.tries });
        }
        const [call] = what === 'end' ? running.splice(which % Math.max(1, running.length), 1) : [];
        if (call === undefined) continue;
        const health = call.tenant !== 'eve' ? 'up' : isDown ? 'down' : 'neutral';
        breaker = ended(breaker, RULE, { ...call, health }, now);
        if (breaker.state === 'open') expect(breaker.by).toBe('eve');
      }
    });
  });
});

test('whatever happens: nothing passes while it is open, and those that try begin as far apart as it stays open, or after one ended', () => {
  const step = fc.record({
    ms: fc.nat(4_000),
    what: fc.constantFrom('begin', 'up', 'down', 'neutral'),
    which: fc.nat(),
  });
  forAll(fc.array(step, { maxLength: 60 }), (steps) => {
    let breaker: Breaker = CLOSED;
    let now = 0;
    let lastTry = 0;
    const running: boolean[] = [];
    for (const { ms, what, which } of steps) {
      now += ms;
      if (what === 'begin') {
        const wait = mustWait(breaker, RULE, 'acme', now);
        if (breaker.state === 'open') expect(wait > 0).toBe(now < breaker.until);
        if (wait > 0) continue;
        const pass = passed(breaker, 'acme', now);
        breaker = pass.breaker;
        if (pass.tries && running.includes(true))
          expect(now - lastTry).toBeGreaterThanOrEqual(RULE.openSeconds * 1_000);
        if (pass.tries) lastTry = now;
        running.push(pass.tries);
      } else if (running.length > 0) {
        const [tries = false] = running.splice(which % running.length, 1);
        breaker = ended(breaker, RULE, { tenant: 'acme', health: what, tries }, now);
      }
      // Half-open means that somebody tries: else it would stay so for ever.
      if (breaker.state === 'half-open') expect(running).toContain(true);
    }
  });
});

test('its alert fires for a server that never answers: one call or another tries most of the time', () => {
  const rule = { failures: 5, withinSeconds: 60, openSeconds: 30 };
  const callTimeoutMs = 120_000;
  const down = { tenant: 'acme', health: 'down' } as const;
  const alerts = Alerts.parse(parse(readDeployed('prometheus/alerts.yaml'))).groups.flatMap(({ rules }) => rules);
  const alert = alerts.find((each) => each.alert === 'CountersignBreakerOpen');
  const [, sign, value] =
    /^max by \(server\) \(countersign_server_breaker\) (==|>) (\d)$/m.exec(alert?.expr ?? '') ?? [];
  const isRaised = (gauge: number): boolean => (sign === '==' ? gauge === Number(value) : gauge > Number(value));
  const gauges = { closed: 0, 'half-open': 1, open: 2 };
  let breaker = CLOSED;
  for (let failure = 0; failure < 5; failure += 1) breaker = ended(breaker, rule, { ...down, tries: false }, 1);
  const ends: number[] = [];
  let raisedFor = 0;
  let longest = 0;
  for (let now = 1_000; now <= 3_600_000; now += 1_000) {
    while (ends[0] !== undefined && ends[0] <= now)
      breaker = ended(breaker, rule, { ...down, tries: true }, ends.shift() ?? now);
    if (mustWait(breaker, rule, 'acme', now) === 0) {
      breaker = passed(breaker, 'acme', now).breaker;
      ends.push(now + callTimeoutMs);
    }
    // Prometheus looks as often by default.
    if (now % 15_000 !== 0) continue;
    raisedFor = isRaised(gauges[breaker.state]) ? raisedFor + 15 : 0;
    longest = Math.max(longest, raisedFor);
  }
  expect(alert?.for).toBe('5m');
  expect(longest).toBeGreaterThan(300);
});

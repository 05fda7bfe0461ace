/** Limits that protect servers: how many at once, how often, whom a server asked for time, and its breaker. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type Caller,
  type Entered,
  type LimitEvent,
  rateOf,
  ServerLimits,
  untilNext,
  within,
  withinLimits,
} from '../../../../activities/limits/server-limits.ts';
import { ListingFailure } from '../../../../activities/mcp/listing.ts';
import type { CallEnding, ToolListing, ToolServer } from '../../../../activities/mcp/port.ts';
import { ServerLimits as Limits, ServerLimits as Schema } from '../../../../contracts/schemas/config.ts';
import type { DispatchInput, DispatchResult } from '../../../../contracts/wire/tools.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';
import { RUN } from '../../../support/activities/tool-activities.ts';
import { forAll } from '../../../support/for-all.ts';

const URL = 'https://files.example/mcp';

function limited(limits: (typeof Schema)['_zod']['input'] | undefined, random = 0) {
  const clock = { now: 1_000_000 };
  const told: LimitEvent[] = [];
  const configured = new Map([
    [URL, { name: 'files', ...(limits === undefined ? {} : { limits: Schema.parse(limits) }) }],
  ]);
  const gate = new ServerLimits({
    configured,
    tell: (event) => told.push(event),
    now: () => clock.now,
    random: () => random,
  });
  const enter = (key: string, over: Partial<Caller> = {}) =>
    gate.enter({ url: URL, tenant: 'acme', key, attempt: 1, ...over });
  /** @throws where it is held back */
  const entered = (key: string, over: Partial<Caller> = {}): Entered => {
    const place = enter(key, over);
    if (place.kind === 'held') throw new Error(`${key} is held back by ${place.by}`);
    return place;
  };
  return { clock, told, enter, entered };
}

describe('how many at once', () => {
  test('the next is held back, and comes in once a place is free', () => {
    const { enter, entered } = limited({ concurrency: 2 });
    const first = entered('a');
    entered('b');
    expect(enter('c')).toMatchObject({
      kind: 'held',
      by: 'concurrency',
      code: 'TOOL_RATE_LIMITED',
      atMostSeconds: 3_600,
      message: 'Server "files" takes at most 2 calls at once.',
    });
    first.leave('up');
    entered('c');
    expect(enter('d').kind).toBe('held');
  });

  test('a place that is given back twice is one place', () => {
    const { enter, entered } = limited({ concurrency: 2 });
    const first = entered('a');
    entered('b');
    first.leave('up');
    first.leave('up');
    entered('c');
    expect(enter('d').kind).toBe('held');
  });

  test('who comes later is told to wait longer, and who comes back for nothing comes more rarely', () => {
    const { enter, entered } = limited({ concurrency: 1 });
    entered('a');
    const waits = ['b', 'c', 'd'].map((key) => enter(key)).map((held) => held.kind === 'held' && held.retryAfterMs);
    expect(waits).toEqual([1_000, 2_000, 3_000]);
    expect(enter('b', { attempt: 7 })).toMatchObject({ retryAfterMs: 6_400 });
    expect(enter('b', { attempt: 1_000 })).toMatchObject({ retryAfterMs: 10_000 });
  });

  test('whatever happens: never more than so many, and none is turned away from a free place', () => {
    forAll(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.record({ begins: fc.boolean(), which: fc.nat(), ms: fc.nat(3_000) }), { maxLength: 80 }),
      (concurrency, steps) => {
        const { clock, enter } = limited({ concurrency });
        const inside: Entered[] = [];
        for (const [index, { begins, which, ms }] of steps.entries()) {
          clock.now += ms;
          if (!begins) {
            inside.splice(inside.length === 0 ? 0 : which % inside.length, 1)[0]?.leave('up');
            continue;
          }
          const place = enter(`${index}`);
          expect(place.kind === 'entered').toBe(inside.length < concurrency);
          if (place.kind === 'entered') inside.push(place);
          else expect(place.retryAfterMs).toBeGreaterThan(0);
          expect(inside.length).toBeLessThanOrEqual(concurrency);
        }
      },
    );
  });
});

describe('how often', () => {
  test('never more than so many in any second, however they come', () => {
    const { clock, enter } = limited({ perSecond: 2 });
    const begun: number[] = [];
    for (let index = 0; index < 200; index += 1) {
      clock.now += (index * 37) % 211;
      const place = enter(`${index}`);
      if (place.kind === 'entered') {
        begun.push(clock.now);
        place.leave('up');
      } else expect(place.by).toBe('rate');
    }
    for (const from of begun)
      expect(begun.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(2);
    expect(begun.length).toBeGreaterThan(20);
  });

  test('those who wait are spread over what is free, and one that does not come back is forgotten', () => {
    const { clock, enter, entered } = limited({ perSecond: 1 });
    entered('a');
    expect(enter('b')).toMatchObject({ retryAfterMs: 1_000 });
    expect(enter('c')).toMatchObject({ retryAfterMs: 2_000 });
    clock.now += 60_000;
    entered('d');
    expect(enter('e')).toMatchObject({ retryAfterMs: 1_000 });
  });
});

describe('a server that asked for time', () => {
  const busy = { code: 'TOOL_UNAVAILABLE', ms: 10_000 } as const;
  const tooMany = { code: 'TOOL_RATE_LIMITED', ms: 10_000 } as const;

  test('503: every call waits, also of a server without limits, and for no longer than it asked', () => {
    const { clock, enter, entered, told } = limited(undefined);
    entered('a').leave('down', busy);
    expect(enter('b')).toMatchObject({ by: 'retry-after', retryAfterMs: 10_000, atMostSeconds: 3_600 });
    expect(enter('c', { tenant: 'other' })).toMatchObject({ by: 'retry-after' });
    clock.now += 10_000;
    entered('b');
    expect(told.filter(({ kind }) => kind === 'asked')).toEqual([{ kind: 'asked', server: 'files', ms: 10_000 }]);
  });

  test('429: calls of that tenant wait, and no other ones', () => {
    const { enter, entered } = limited(undefined);
    entered('a').leave('up', tooMany);
    expect(enter('b').kind).toBe('held');
    entered('c', { tenant: 'other' });
    entered('d', { url: 'https://other.example/mcp' });
  });

  test('a day is not believed for all others', () => {
    const { clock, entered } = limited(undefined);
    entered('a').leave('down', { ...busy, ms: 86_400_000 });
    clock.now += 300_000;
    entered('b');
  });

  test('it is told once, however many were under way', () => {
    const { entered, told } = limited(undefined);
    for (const place of [entered('a'), entered('b'), entered('c')]) place.leave('up', tooMany);
    expect(told.filter(({ kind }) => kind === 'asked')).toHaveLength(1);
  });

  test('those who wait do not come back together', () => {
    const { enter, entered } = limited(undefined, 0.999);
    entered('a').leave('down', busy);
    expect(enter('b')).toMatchObject({ retryAfterMs: 12_498 });
  });
});

describe('a breaker', () => {
  const rule = { breaker: { failures: 2, withinSeconds: 60, openSeconds: 30 } };

  test('opens, lets one call try, and closes when it is answered; each change is told once', () => {
    const { clock, enter, entered, told } = limited(rule);
    entered('a').leave('down');
    entered('b').leave('down');
    expect(enter('c')).toMatchObject({ by: 'breaker', code: 'TOOL_UNAVAILABLE', retryAfterMs: 30_000 });
    clock.now += 30_000;
    const tries = entered('c');
    expect(enter('d')).toMatchObject({ by: 'breaker', retryAfterMs: 1_000 });
    tries.leave('up');
    entered('d');
    expect(told.flatMap((event) => (event.kind === 'breaker' ? [event.state] : []))).toEqual([
      'open',
      'half-open',
      'closed',
    ]);
  });

  test('that one tenant has opened holds back that tenant: another one tries, and where it fails, too, all wait', () => {
    const { clock, enter, entered } = limited(rule);
    const other = { tenant: 'other' };
    for (const key of ['a', 'b']) entered(key).leave('down');
    expect(enter('c')).toMatchObject({ by: 'breaker' });
    entered('d', other).leave('up');
    for (const key of ['e', 'f']) entered(key).leave('down');
    entered('g', other).leave('down');
    expect(enter('h', other)).toMatchObject({ by: 'breaker', retryAfterMs: 30_000 });
    expect(enter('i', { tenant: 'third' })).toMatchObject({ by: 'breaker' });
    clock.now += 30_000;
    entered('i', { tenant: 'third' }).leave('up');
    entered('h', other);
  });

  test('a call that may not try for another reason does not keep others from trying', () => {
    const { clock, enter, entered } = limited({ ...rule, concurrency: 1 });
    entered('a').leave('down');
    const slow = entered('b');
    clock.now += 1;
    expect(enter('c')).toMatchObject({ by: 'concurrency' });
    slow.leave('down');
    clock.now += 30_000;
    entered('c').leave('up');
    entered('d');
  });
});

test('servers that only come by URL are forgotten when nothing is known of them any more', () => {
  const { clock, enter, entered } = limited(undefined);
  entered('a', { url: 'https://busy.example/mcp' }).leave('down', { code: 'TOOL_UNAVAILABLE', ms: 100_000 });
  for (let index = 0; index < 3_000; index += 1) entered('b', { url: `https://${index}.example/mcp` }).leave('up');
  expect(enter('c', { url: 'https://busy.example/mcp' }).kind).toBe('held');
  clock.now += 200_000;
  entered('d', { url: 'https://busy.example/mcp' });
});

// A rate holds in every stretch of time, wherever it begins.

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

test('whoever comes whenever: never more than so many in any window', () => {
  forAll(
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
  );
});

describe('A dispatch within the limits of its server: nothing of it begins while it is held back, and its place is given back whatever happens', () => {
  const DONE: DispatchResult = { kind: 'ended', outcome: { kind: 'cancelled', reason: 'of the test' } };

  function desk(
    given: (typeof Limits)['_zod']['input'],
    ending: CallEnding = { kind: 'executed', isError: false, result: { content: [] } },
    list: () => Promise<ToolListing> = async () => ({ tools: [], refused: [] }),
  ) {
    const gate = new ServerLimits({
      configured: new Map([[URL, { name: 'files', limits: Limits.parse(given) }]]),
      tell: () => {},
    });
    const toolServer: ToolServer = { call: async () => ending, list: async () => await list() };
    let dispatches = 0;
    const through = async (send: (server: ToolServer) => Promise<DispatchResult>, callTimeoutSeconds = 120) => {
      dispatches += 1;
      const limits = { resultBytes: 1_024, callTimeoutSeconds };
      const input = { run: RUN, server: { name: 'files', url: URL }, idempotencyKey: `run/${dispatches}`, attempt: 1 };
      // Sound: nothing else of a dispatch is read.
      return await withinLimits(gate, toolServer, { ...input, limits } as DispatchInput, send);
    };
    const call = async (callTimeoutSeconds?: number) =>
      await through(async (server) => {
        await server.call(aConnection({ url: URL }), aCall());
        return DONE;
      }, callTimeoutSeconds);
    return { through, call };
  }

  test('held back, nothing begins: no token is obtained for it (INV-S2), and it says that nothing was sent (INV-X1)', async () => {
    const { through } = desk({ concurrency: 1, waitSeconds: 60 });
    let begun = 0;
    const results = await Promise.all([
      through(async () => {
        begun += 1;
        await Promise.resolve();
        return DONE;
      }),
      through(async () => {
        begun += 1;
        return DONE;
      }),
    ]);
    expect(begun).toBe(1);
    expect(results).toMatchObject([
      DONE,
      { kind: 'not-sent', code: 'TOOL_RATE_LIMITED', held: { by: 'concurrency', atMostSeconds: 60 } },
    ]);
  });

  test('a dispatch that throws, or ends before it calls, gives its place back and tells nothing of the server', async () => {
    const { through, call } = desk({ concurrency: 1, breaker: { failures: 1 } });
    await expect(through(() => Promise.reject(new Error('a fault of ours')))).rejects.toThrow('a fault of ours');
    expect(
      await through(async (server) => (await server.list(aConnection({ url: URL }), AbortSignal.abort()), DONE)),
    ).toBe(DONE);
    expect(await call()).toBe(DONE);
  });

  test('of a server that fails the breaker hears, also where the call had no time only if it had enough', async () => {
    const failing = desk(
      { breaker: { failures: 1 } },
      { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: '', fault: 'failure' },
    );
    expect(await failing.call()).toBe(DONE);
    expect(await failing.call()).toMatchObject({ held: { by: 'breaker' } });
    const silent = desk(
      { breaker: { failures: 1 } },
      { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: '', fault: 'timeout' },
    );
    for (const _ of [1, 2]) expect(await silent.call(5)).toBe(DONE);
    expect(await silent.call(60)).toBe(DONE);
    expect(await silent.call(60)).toMatchObject({ held: { by: 'breaker' } });
  });

  describe('the list before a call', () => {
    const listed = async (server: ToolServer) =>
      await server.list(aConnection({ url: URL }), new AbortController().signal);
    const both = async (server: ToolServer): Promise<DispatchResult> => {
      await listed(server);
      await server.call(aConnection({ url: URL }), aCall());
      return DONE;
    };

    test('leaves from the place of its call, which does not wait for it; the rate counts both', async () => {
      const { through, call } = desk({ concurrency: 1, perSecond: 0.001 });
      expect(await through(both)).toBe(DONE);
      expect(await call()).toMatchObject({ held: { by: 'rate' } });
      // Two of two were used: a call of its own finds none left.
      const two = desk({ perSecond: 2 });
      expect(await two.through(both)).toBe(DONE);
      expect(await two.call()).toMatchObject({ held: { by: 'rate' } });
      // Control: without a list there is room for a second one.
      const single = desk({ perSecond: 2 });
      for (const _ of [1, 2]) expect(await single.call()).toBe(DONE);
    });

    test('tells the breaker of its server, and holds others back for the time that it asked for', async () => {
      const broken = (asked?: { code: 'TOOL_RATE_LIMITED'; ms: number }) => () =>
        Promise.reject(new ListingFailure('DISCOVERY_FAILED', 'HTTP 500', {}, { health: 'down', asked }));
      const down = desk({ breaker: { failures: 1 } }, undefined, broken());
      await expect(down.through(both)).rejects.toThrow('HTTP 500');
      expect(await down.call()).toMatchObject({ held: { by: 'breaker' } });
      const asks = desk({}, undefined, broken({ code: 'TOOL_RATE_LIMITED', ms: 60_000 }));
      await expect(asks.through(both)).rejects.toThrow('HTTP 500');
      expect(await asks.call()).toMatchObject({ held: { by: 'retry-after' } });
    });
  });
});

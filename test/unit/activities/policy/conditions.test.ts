/** Conditions and schemas within their limits: what they may read, and what they are made to do to a worker. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { type ConditionInputs, factsOf } from '../../../../activities/policy/condition-variables.ts';
import { Re2Pattern } from '../../../../activities/kit/re2-pattern.ts';
import { compileCondition, ConditionClock, Conditions } from '../../../../activities/policy/condition.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { type Holds, judge } from '../../../../domain/policy/judge.ts';
import { judgedTool } from '../../../support/builders/policy.ts';
import { heldBytes } from '../../../support/heap.ts';

describe('conditions within their limits of time, and what they may read', () => {
  function inputs(over: Partial<ConditionInputs> = {}): ConditionInputs {
    return {
      call: { server: 'files', tool: 'write_file', callId: 't3.c1', annotations: { readOnlyHint: true } },
      args: { n: 5, s: 'abc', l: [1, 2], o: { constructor: 1 } },
      run: { id: 'run-1', tenant: 'acme', turn: 3 },
      initiator: { id: 'ann', groups: ['ops'], tenant: 'acme' },
      earlier: { tools: { 'mail/send': { succeeded: 3, open: 1 }, 'mail/read': { answered: 2 } } },
      ...over,
    };
  }

  const SLOW = 'args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, a * b * c * d != 0.5))))';
  const LONG = { l: Array.from({ length: 5_000 }, (_, index) => index) };

  function policyOf(...conditions: string[]) {
    return { rules: conditions.map((when, index) => ({ id: `r${index}`, when, then: 'ask' as const })) };
  }

  async function holds(when: string, over: Partial<ConditionInputs> = {}): Promise<Holds> {
    return await new Conditions().asked([policyOf(when)], inputs(over), new ConditionClock(), (ask) => ask(when));
  }

  test.each<[string, Holds]>([
    ['args.n > 4 && args.n < 5.5 && args.n == 5', true],
    ['args.s.matches("b") && !args.s.matches("^b")', true],
    ['args.s.contains("bc") && args.s.startsWith("a") && args.s.size() == 3', true],
    ['args.l.exists(x, x == 2) && args.l.filter(x, x > 1).size() == 1', true],
    ['args.o.constructor == 1', true],
    ['call.server == "files" && call.tool == "write_file" && call.callId == "t3.c1"', true],
    ['call.annotations.readOnlyHint', true],
    ['run.id == "run-1" && run.tenant == "acme" && run.turn == 3', true],
    ['initiator.id == "ann" && "ops" in initiator.groups && initiator.tenant == "acme"', true],
    ['earlier["mail/send"].succeeded == 3 && earlier["mail/send"].total == 4', true],
    ['earlier["mail/read"].answered == 2 && earlier["mail/read"].total == 2', true],
    ['earlier["mail/drop"].total == 0', true],
    ['args.gone == 1', 'failed'],
    ['args.gone == 1 || args.n == 5', true],
    ['args.n + 1 == 6', 'failed'],
  ])('%s', async (when, answer) => {
    expect(await holds(when)).toBe(answer);
  });

  describe('INV-G4: fails', () => {
    test.each(['call.annotations.readOnlyHint', '!has(call.annotations.readOnlyHint)', 'call.annotations == {}'])(
      'what reads hints that nobody trusts: %s',
      async (when) => {
        const call = { server: 'files', tool: 'write_file', callId: 't3.c1', annotations: undefined };
        expect(await holds(when, { call })).toBe('failed');
        expect(await holds('!has(call.annotations)', { call })).toBe(true);
      },
    );

    test('what asks for earlier calls where the run does not count them, or not this tool', async () => {
      expect(await holds('earlier["mail/send"].total < 9', { earlier: undefined })).toBe('failed');
      const earlier = { tools: { 'mail/send': { succeeded: 1 } }, beyond: 2 };
      expect(await holds('earlier["mail/send"].total < 9', { earlier })).toBe(true);
      expect(await holds('earlier["mail/drop"].total < 9', { earlier })).toBe('failed');
    });

    test('what was never compiled', async () => {
      const answer = await new Conditions().asked([], inputs(), new ConditionClock(), (ask) => ask('true'));
      expect(answer).toBe('failed');
    });
  });

  describe('time', () => {
    test('one that runs out of it fails, and those after it are answered', async () => {
      const clock = new ConditionClock();
      const conditions = new Conditions();
      const args = { ...LONG, n: 1 };
      const answers = await conditions.asked([policyOf(SLOW, 'args.n == 1')], inputs({ args }), clock, (ask) => [
        ask(SLOW),
        ask('args.n == 1'),
      ]);
      expect(answers).toEqual(['failed', true]);
      expect([...clock.slow]).toEqual([SLOW]);
      // Not tried again in this turn; in the next one it is.
      expect(await conditions.asked([policyOf(SLOW)], inputs(), clock, (ask) => ask(SLOW))).toBe('failed');
      expect(await conditions.asked([policyOf(SLOW)], inputs(), new ConditionClock(), (ask) => ask(SLOW))).toBe(true);
    });

    test('with none left in the turn everything fails, and nothing is evaluated', async () => {
      const clock = new ConditionClock();
      clock.leftMs = 0;
      expect(await new Conditions().asked([policyOf('true')], inputs(), clock, (ask) => ask('true'))).toBe('failed');
    });

    test('INV-D3: other work gets in between: a turn of hostile conditions ends, and timers fire meanwhile', async () => {
      const conditions = Array.from({ length: 15 }, (_, index) => `${SLOW} && ${index} < 99`);
      const clock = new ConditionClock();
      let fired = 0;
      const timer = setInterval(() => (fired += 1), 1);
      const answers = await new Conditions().asked([policyOf(...conditions)], inputs({ args: LONG }), clock, (ask) =>
        conditions.map(ask),
      );
      clearInterval(timer);
      expect(new Set(answers)).toEqual(new Set(['failed']));
      expect(fired).toBeGreaterThan(0);
    });

    test('what the task throws is thrown', async () => {
      const task = (): never => {
        throw new Error('of the task');
      };
      await expect(new Conditions().asked([], inputs(), new ConditionClock(), task)).rejects.toThrow('of the task');
    });
  });

  test('a condition says whether it asks for earlier calls', async () => {
    const conditions = new Conditions();
    expect(await conditions.readEarlier(policyOf('args.n == 1'))).toBe(false);
    expect(await conditions.readEarlier(policyOf('(', 'args.l.all(x, earlier["a/b"].total > 0)'))).toBe(true);
    expect(await conditions.readEarlier(undefined)).toBe(false);
    expect(await conditions.problems(policyOf('true', '('))).toEqual([
      { index: 1, reason: expect.stringMatching(/^cannot be read/) },
    ]);
    expect(await conditions.problems({ rules: [{ id: 'r', then: 'ask' }] })).toEqual([]);
  });

  test('conditions that share a time are read until it is over, and the next one is the last problem', async () => {
    const wanted = policyOf('(', 'true', 'false');
    const all = await new Conditions().problems(wanted);
    expect(await new Conditions().problems(wanted, new ConditionClock())).toEqual(all);
    const unread = { index: 0, reason: expect.stringMatching(/^was not read/) };
    const conditions = new Conditions();
    expect(await conditions.problems(wanted, new ConditionClock(0))).toEqual([unread]);
    // The same conditions are read if there is time.
    expect(await conditions.problems(wanted)).toEqual(all);
  });

  describe('memory', () => {
    test('INV-G4: conditions that have no room beside each other are answered, whoever else asks', async () => {
      const conditions = new Conditions(1);
      const all = [0, 1, 2].map((caller) =>
        Array.from({ length: 20 }, (_, index) => `args.s.matches("^ab?c") && ${caller * 100 + index} >= 0`),
      );
      const clocks = all.map(() => new ConditionClock());
      const answers = await Promise.all(
        all.map((own, at) =>
          // Sound: there is a clock for each.
          conditions.asked([policyOf(...own)], inputs(), clocks[at] as ConditionClock, (ask) => own.map(ask)),
        ),
      );
      expect(new Set(answers.flat())).toEqual(new Set([true]));
    });

    test('policies that are asked at one time have room for one of them beside what is kept', async () => {
      const conditions = new Conditions(200_000);
      const all = Array.from({ length: 8 }, (_, caller) =>
        Array.from({ length: 10 }, (__, index) => `args.s.matches("^ab?c{1,${caller * 10 + index + 1}}")`),
      );
      let most = 0;
      const answers = all.map(async (own) =>
        conditions.asked([policyOf(...own)], inputs(), new ConditionClock(), (ask) => {
          most = Math.max(most, conditions.bytes);
          return own.map(ask);
        }),
      );
      expect(new Set((await Promise.all(answers)).flat())).toEqual(new Set([true]));
      // One takes a megabyte.
      expect(most).toBeLessThan(1_600_000);
    });

    test('a policy has at most 500 patterns, and what is beyond is named before anything is compiled', async () => {
      const two = 'args.s.matches("a") || args.s.matches("b")';
      const policy = policyOf(...Array.from({ length: 250 }, (_, index) => `${two} || args.n == ${index}`));
      expect(await new Conditions().problems(policy)).toEqual([]);
      const one = { id: 'one', when: 'args.s.matches("a")', then: 'ask' as const };
      const reason = 'uses `matches` beyond the 500 times that a policy may';
      expect(await new Conditions().problems({ rules: [...policy.rules, one] })).toEqual([{ index: 250, reason }]);
    });

    test('a pattern is no longer as RE2 than a class that is repeated a thousand times', async () => {
      const wide = `args.s.matches("(?:${'a'.repeat(180)}){1000}")`;
      const reason = 'has a pattern that makes 180002 instructions of RE2; 2500 are allowed. Repeat less in it';
      expect(await new Conditions().problems(policyOf(wide))).toEqual([{ index: 0, reason }]);
      // It was admitted by a worker of before.
      expect(await holds(wide)).toBe('failed');
      const usual = 'args.s.matches("^[a-z0-9 ]{1,1000}$") && args.s.matches("^.{0,1000}$")';
      expect(await new Conditions().problems(policyOf(usual))).toEqual([]);
      expect(await holds(usual)).toBe(true);
    });

    test('a hostile pattern keeps little between texts', () => {
      const text = 'aé漢字'.repeat(500);
      const before = heldBytes();
      const patterns = Array.from({ length: 4 }, () => new Re2Pattern('(?i)\\pL{1000}'));
      expect(patterns.map((pattern) => pattern.isIn(text))).toEqual(patterns.map(() => true));
      // Without a limit it is 6 MB each.
      expect(heldBytes() - before).toBeLessThan(8_000_000);
      expect(patterns).toHaveLength(4);
    });
  });

  test('arguments of any depth fail a condition and nothing else', () => {
    let deep: { [key: string]: unknown } = {};
    for (let depth = 0; depth < 50_000; depth += 1) deep = { deep };
    // Sound: JSON of a depth that JSON.parse takes.
    expect(() => factsOf(inputs({ args: deep as never }))).toThrow(RangeError);
    expect(compileCondition('true').evaluate(factsOf(inputs()))).toBe(true);
  });
});

describe('what a condition is made to do to a worker, and does not (INV-G4; `test/support/hostile-conditions.yaml`)', () => {
  const Hostile = z.array(
    z.strictObject({
      what: z.string(),
      when: z.string(),
      refused: z.coerce.string().optional(),
      failed: z.literal(true).optional(),
      answered: z.boolean().optional(),
    }),
  );

  const MADE: Readonly<Record<string, string>> = {
    DEEP: `${'('.repeat(400)}true${')'.repeat(400)}`,
    WIDE: `[${'1,'.repeat(400)}1].size() > 0`,
    'TOO LONG': `true ${' '.repeat(1_000)}`,
  };
  const FILE = new URL('../../../support/hostile-conditions.yaml', import.meta.url);
  const hostile = Hostile.parse(parse(readFileSync(FILE, 'utf8'))).map((each) => ({
    ...each,
    when: (MADE[each.when] ?? each.when).replace('LONG', 'a'.repeat(201)),
  }));

  const inputs: ConditionInputs = {
    call: { server: 'files', tool: 'write_file', callId: 't1.c0', annotations: {} },
    args: { text: `${'a'.repeat(200_000)}b`, list: Array.from({ length: 20_000 }, (_, index) => index + 1) },
    run: { id: 'run-1', tenant: 'default', turn: 1 },
    initiator: { id: 'ann', groups: [], tenant: 'default' },
    earlier: { tools: {} },
  };

  async function verdictOf(when: string, then: 'allow' | 'ask' | 'deny'): Promise<string> {
    const organisation: Policy = { strategy: then === 'allow' ? 'always' : 'never', rules: [{ id: 'r', when, then }] };
    const verdict = await new Conditions().asked([organisation], inputs, new ConditionClock(), (ask) =>
      judge({ organisation, run: undefined }, judgedTool(), 'ann', ask),
    );
    return verdict.kind;
  }

  test('there are at least 20 of them, each of its own kind', () => {
    expect(hostile.length).toBeGreaterThanOrEqual(20);
    expect(new Set(hostile.map(({ when }) => when)).size).toBe(hostile.length);
  });

  describe.each(hostile)('$what', ({ when, refused, failed, answered }) => {
    test('INV-G4: is refused where it stands, or has no answer', () => {
      if (refused !== undefined) return expect(() => compileCondition(when)).toThrow(refused);
      if (answered !== undefined) return expect(compileCondition(when).evaluate(factsOf(inputs))).toBe(answered);
      expect(failed).toBe(true);
      expect(() => compileCondition(when)).not.toThrow();
    });

    if (answered === undefined)
      test('INV-G4: the call is asked or denied, whatever the rule says', async () => {
        expect(await verdictOf(when, 'allow')).toBe('ask');
        expect(await verdictOf(when, 'ask')).toBe('ask');
        expect(await verdictOf(when, 'deny')).toBe('deny');
      });
  });
});

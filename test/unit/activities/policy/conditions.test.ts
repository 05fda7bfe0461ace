/** Conditions within their limits of time, and what they may read. */
import { describe, expect, test } from '@jest/globals';
import { compileCondition, ConditionClock, Conditions } from '../../../../activities/policy/condition.ts';
import type { Holds } from '../../../../domain/policy/judge.ts';
import { type ConditionInputs, factsOf } from '../../../../activities/policy/condition-variables.ts';

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

test('arguments of any depth fail a condition and nothing else', () => {
  let deep: { [key: string]: unknown } = {};
  for (let depth = 0; depth < 50_000; depth += 1) deep = { deep };
  // Sound: JSON of a depth that JSON.parse takes.
  expect(() => factsOf(inputs({ args: deep as never }))).toThrow(RangeError);
  expect(compileCondition('true').evaluate(factsOf(inputs()))).toBe(true);
});

/** What a condition is made to do to a worker, and does not (INV-G4; `test/support/hostile-conditions.yaml`). */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { compileCondition, ConditionClock, Conditions } from '../../../../activities/policy/condition.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { judge } from '../../../../domain/policy/judge.ts';
import { judgedTool } from '../../../support/builders/policy.ts';
import { type ConditionInputs, factsOf } from '../../../../activities/policy/condition-variables.ts';

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
const hostile = Hostile.parse(parse(await readFile(FILE, 'utf8'))).map((each) => ({
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

/** What a run's own rules may be, and what it keeps for them (INV-G4). */
import { expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { RunSpecInput } from '../../../../contracts/schemas/run-spec.ts';

async function prepared(organisation: ConfigInput['policy'], policy: RunSpecInput['policy'], more: object = {}) {
  const models = { main: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const prepareRun = createPrepareRun(Config.parse({ models, policy: organisation }), async () => undefined);
  const agent = { name: 'clerk', model: 'main' };
  return await prepareRun({ agent, input: 'go', initiator: { id: 'ann' }, ...(policy && { policy }), ...more });
}

const counting = { rules: [{ id: 'a', when: 'earlier["a/b"].total > 1', then: 'ask' as const }] };
const plain = { rules: [{ id: 'a', when: 'args.x > 1.0', then: 'ask' as const }] };

test('earlier calls are counted where a rule of either layer asks for them, and nowhere else', async () => {
  expect(await prepared(counting, undefined)).toMatchObject({ tally: true });
  expect(await prepared(plain, counting)).toMatchObject({ tally: true });
  expect(await prepared(plain, plain)).not.toHaveProperty('tally');
});

test('what they add to each call is counted among what a turn sends', async () => {
  const limits = { callsPerTurn: 64, argumentBytesPerTurn: 524_288, resultBytes: 8_192 };
  // 40 kB of rules for each of 64 calls fit, and the tally beside them does not.
  const explain = 'x'.repeat(450);
  const rules = Array.from({ length: 70 }, (_, index) => ({ id: `r${index}`, then: 'ask' as const, explain }));
  await expect(prepared(plain, { rules }, { limits })).resolves.toMatchObject({ limits });
  await expect(prepared(counting, { rules }, { limits })).rejects.toMatchObject({
    facts: { path: 'limits.callsPerTurn' },
  });
});

test.each([
  ['halts', { halt: { reason: 'Mine.' } }, 'policy.halt'],
  [
    'breaks glass',
    { rules: [{ id: 'a', then: 'allow', breakGlass: { reason: 'Mine.', until: '2126-01-01T00:00:00.000Z' } }] },
    'policy.rules[0].breakGlass',
  ],
] as const)('INV-G4: no run %s: only the organisation does', async (_, policy, path) => {
  // Sound: the test says what a starter in another language may send.
  await expect(prepared({}, policy as unknown as RunSpecInput['policy'])).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    facts: { path },
  });
});

test.each([
  ['a condition that cannot be evaluated', { rules: [{ id: 'a', when: 'x', then: 'ask' }] }, 'policy.rules[0].when'],
  [
    'two rules of one id',
    {
      rules: [
        { id: 'a', then: 'ask' },
        { id: 'a', then: 'ask' },
      ],
    },
    'policy.rules[1].id',
  ],
] as const)('INV-G4: %s is refused, with its path', async (_, policy, path) => {
  // Sound: the test says what a starter in another language may send.
  await expect(prepared({}, policy as unknown as RunSpecInput['policy'])).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    facts: { path },
  });
});

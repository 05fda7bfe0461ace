/** A run whose spend is limited takes only a model that has a price (INV-G4); one deployment has one currency. */
import { describe, expect, test } from '@jest/globals';
import { createPrepareRun } from '../../../../activities/run/prepare-run.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';

const scripted = { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } };
const EUR = { input: '2.50', output: '10', currency: 'EUR' };
const FREE = { input: '0', output: '0', currency: 'EUR' };

function prepared(limits: ConfigInput['limits'], model: string, spend?: string) {
  const models = { paid: { ...scripted, price: EUR }, unknown: scripted };
  const config = Config.parse({ models, limits });
  const spec = {
    agent: { name: 'clerk', model },
    input: 'go',
    initiator: { id: 'ann' },
    ...(spend === undefined ? {} : { limits: { spend } }),
  };
  return createPrepareRun(config, async () => undefined)(spec);
}

describe('at its start', () => {
  test('a run gets the price of its model in whole millionths, and the limit that it asked for', async () => {
    expect(await prepared({}, 'paid', '5.00')).toMatchObject({
      price: { input: 2_500_000, output: 10_000_000, currency: 'EUR' },
      limits: { spend: '5.00' },
    });
  });

  test.each([
    ['1', '5', '1'],
    ['5', '1', '1'],
    ['2', '10', '2'],
    [undefined, '5', '5'],
  ])('asked %s under a ceiling of %s, it gets %s', async (asked, ceiling, spend) => {
    expect((await prepared({ spend: ceiling }, 'paid', asked)).limits.spend).toBe(spend);
  });

  test.each([
    [{}, '5.00'],
    [{ spend: '5.00' }, undefined],
  ])('INV-G4: a model without a price is refused where spend is limited (%o, %s)', async (ceilings, asked) => {
    await expect(prepared(ceilings, 'unknown', asked)).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('models.unknown.price'),
      facts: { path: 'agent.model' },
    });
  });

  test('it needs none where spend is not', async () => {
    const run = await prepared({}, 'unknown');
    expect(run).not.toHaveProperty('price');
    expect(run.limits).not.toHaveProperty('spend');
  });
});

test.each(['0', '0.00', '-1', '1e3', '.5', '1.0000001', 'five', 5, 2.5])('a limit of %p is refused', (spend) => {
  const spec = { agent: { name: 'clerk', model: 'paid' }, input: 'go', initiator: { id: 'ann' }, limits: { spend } };
  expect(RunSpec.safeParse(spec).error?.issues[0]?.path).toEqual(['limits', 'spend']);
});

describe('a configuration', () => {
  const check = (config: ConfigInput) => () => checkConfig(Config.parse(config), 'configuration');

  test('says what every model costs where spend is limited, and "0" is a price', () => {
    const limits = { spend: '5' };
    expect(
      check({ limits, models: { paid: { ...scripted, price: EUR }, own: { ...scripted, price: FREE } } }),
    ).not.toThrow();
    expect(check({ limits, models: { paid: { ...scripted, price: EUR }, own: scripted } })).toThrow(
      'models.own.price is missing',
    );
    expect(check({ models: { paid: { ...scripted, price: EUR }, own: scripted } })).not.toThrow();
  });

  test('has one currency', () => {
    const models = { one: { ...scripted, price: EUR }, other: { ...scripted, price: { ...EUR, currency: 'USD' } } };
    expect(check({ models })).toThrow('models.other.price.currency must be EUR');
  });

  test.each([2.5, '2,50', '-1', '1.0000001'])('takes no price of %p', (input) => {
    const models = { paid: { ...scripted, price: { ...EUR, input: input as string } } };
    expect(Config.safeParse({ models }).error?.issues[0]?.path).toEqual(['models', 'paid', 'price', 'input']);
  });
});

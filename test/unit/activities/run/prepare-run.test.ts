/** What a run is given at its start: limits, prices, pauses, servers, and its place in the queue. */
import { describe, expect, test } from '@jest/globals';
import { createPrepareRun, priorityOf } from '../../../../activities/run/prepare-run.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { PolicyInput } from '../../../../contracts/schemas/policy.ts';
import { Fairness, RunSpec, type RunSpecInput } from '../../../../contracts/schemas/run-spec.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { runSpec } from '../../../support/builders/run-spec.ts';

describe('which servers of a run may keep their calls waiting for people on an open connection: those of which the operator says so (INV-G4)', () => {
  const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const configOf = (holdSeconds: number) =>
    Config.parse({
      models,
      servers: {
        desk: { url: 'https://desk.example/mcp', elicitation: { holdSeconds } },
        files: { url: 'https://files.example/mcp' },
      },
      egress: { runServers: ['https://own.example'] },
    });

  test('those that are configured so, each with its time', async () => {
    const prepare = createPrepareRun(configOf(300), async () => undefined);
    const { servers } = await prepare({
      agent: { name: 'clerk', model: 'm' },
      input: 'go',
      initiator: { id: 'ann' },
      servers: [{ name: 'desk' }, { name: 'files' }, { name: 'own', url: 'https://own.example/mcp' }],
    });
    expect(servers.map(({ name, holdSeconds }) => [name, holdSeconds])).toEqual([
      ['desk', 300],
      ['files', undefined],
      ['own', undefined],
    ]);
  });

  test.each([29, 3_601, 30.5])('not for %d seconds', (seconds) => {
    expect(() => configOf(seconds)).toThrow('holdSeconds');
  });

  test.each([30, 3_600])('for %d seconds', (seconds) => {
    expect(configOf(seconds).servers['desk']?.elicitation).toEqual({ holdSeconds: seconds });
  });
});

describe('what all calls of a turn send at once fits into one workflow task, or the run is refused before it starts (INV-D3)', () => {
  const config = Config.parse({
    servers: { bank: { url: 'http://127.0.0.1:1/mcp', credentials: { kind: 'none' } } },
    models: { main: { provider: 'scripted', script: { steps: [{ text: 'done' }] } } },
  });
  const prepareRun = createPrepareRun(config, async () => undefined);

  function spec(tools: number, callsPerTurn: number) {
    const allowedTools = Array.from({ length: tools }, (_, index) => `${'t'.repeat(120)}${index}`);
    return {
      agent: { name: 'clerk', model: 'main' },
      input: 'go',
      initiator: { id: 'ann' },
      servers: [{ name: 'bank', allowedTools }],
      limits: { callsPerTurn, resultBytes: 8_192 },
    };
  }

  test('a long list of tools and few calls a turn, or a short one and many, may run', async () => {
    await expect(prepareRun(spec(1_000, 8))).resolves.toMatchObject({ limits: { callsPerTurn: 8 } });
    await expect(prepareRun(spec(10, 64))).resolves.toMatchObject({ limits: { callsPerTurn: 64 } });
  });

  test('both together are refused, with the limit to lower', async () => {
    await expect(prepareRun(spec(1_000, 64))).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('limits.callsPerTurn (64)'),
      facts: { path: 'limits.callsPerTurn' },
    });
  });

  describe('the room of a turn', () => {
    const asking = async (limits: object, ceilings: object = {}) =>
      (
        await createPrepareRun(
          Config.parse({ ...config, limits: ceilings }),
          async () => undefined,
        )({ ...spec(1, 8), limits })
      ).limits.resultBytesPerTurn;

    test('is 256 KiB, or what the spec says, and never more than the operator allows', async () => {
      expect(await asking({})).toBe(262_144);
      expect(await asking({ resultBytesPerTurn: 20_000 })).toBe(20_000);
      expect(await asking({}, { resultBytesPerTurn: 100_000 })).toBe(100_000);
      expect(await asking({ resultBytesPerTurn: 300_000 }, { resultBytesPerTurn: 100_000 })).toBe(100_000);
    });

    test('a spec that does not say has the hash that it had before there was such a limit', async () => {
      const parsed = RunSpec.parse(spec(1, 8));
      expect(Object.keys(parsed.limits)).not.toContain('resultBytesPerTurn');
    });
  });
});

describe('of which servers a run may read what results link to: those of which the operator says so (INV-G4)', () => {
  const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const config = Config.parse({
    models,
    servers: {
      docs: { url: 'https://docs.example/mcp', resourceLinks: 'read' },
      unused: { url: 'https://unused.example/mcp', resourceLinks: 'read' },
      files: { url: 'https://files.example/mcp' },
    },
    egress: { runServers: ['https://own.example'] },
  });
  const prepared = (...servers: readonly { name: string; url?: string }[]) =>
    createPrepareRun(
      config,
      async () => undefined,
    )({
      agent: { name: 'clerk', model: 'm' },
      input: 'go',
      initiator: { id: 'ann' },
      servers,
    });

  test('those of the run that are configured so', async () => {
    const own = { name: 'own', url: 'https://own.example/mcp' };
    expect((await prepared({ name: 'files' }, { name: 'docs' }, own)).links).toEqual(['docs']);
  });

  test('where there are none, nothing is said, as in earlier releases', async () => {
    expect(await prepared({ name: 'files' })).not.toHaveProperty('links');
  });
});

describe('what a run asks people besides consent, and whom (INV-X1)', () => {
  function prepared(organisation: ConfigInput['policy'], policy?: PolicyInput) {
    const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
    const config = Config.parse({ models, ...defined({ policy: organisation }) });
    const spec = { agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' }, policy };
    return createPrepareRun(config, async () => undefined)(spec);
  }

  test('all of it, where nobody says anything else', async () => {
    const asks = { unknownOutcomes: 'ask', missingAuthorization: 'ask' } as const;
    expect((await prepared({})).pauses).toEqual(['outcome', 'input', 'authorization']);
    expect((await prepared(asks, asks)).pauses).toEqual(['outcome', 'input', 'authorization']);
  });

  test('not what became of a call, where the organisation or the run says that it is recorded', async () => {
    for (const run of [
      await prepared({ unknownOutcomes: 'record' }),
      await prepared({ unknownOutcomes: 'record' }, { unknownOutcomes: 'ask' }),
      await prepared({}, { unknownOutcomes: 'record' }),
    ]) {
      expect(run.pauses).toEqual(['input', 'authorization']);
    }
  });

  test('no authorization, where the organisation or the run says that such calls fail', async () => {
    for (const run of [
      await prepared({ missingAuthorization: 'fail' }),
      await prepared({ missingAuthorization: 'fail' }, { missingAuthorization: 'ask' }),
      await prepared({}, { missingAuthorization: 'fail' }),
    ]) {
      expect(run.pauses).toEqual(['outcome', 'input']);
    }
  });

  test('what servers ask is put before people in any case', async () => {
    const nothing = { unknownOutcomes: 'record', missingAuthorization: 'fail' } as const;
    expect((await prepared(nothing)).pauses).toEqual(['input']);
  });

  test('of whoever started it, or of those whom policy names', async () => {
    expect((await prepared({})).answerers).toEqual({
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      deadlineSeconds: 86_400,
    });
    expect((await prepared({ approvers: { groups: ['ops'] }, deadlineSeconds: 60 })).answerers).toMatchObject({
      approvers: { allOf: [{ layer: 'organisation', ids: [], groups: ['ops'] }] },
      deadlineSeconds: 60,
    });
  });
});

describe("what a run's own rules may be, and what it keeps for them (INV-G4)", () => {
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
});

describe('A run whose spend is limited takes only a model that has a price (INV-G4); one deployment has one currency', () => {
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
});

describe('which runs wait for what servers work on as tasks: none where no operator has said so, since earlier workers may still be there', () => {
  const models = { m: { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } } };
  const url = 'https://docs.example/mcp';
  const prepared = (tasks?: { readonly seconds?: number }) =>
    createPrepareRun(
      Config.parse({ models, servers: { docs: { url, ...defined({ tasks }) } } }),
      async () => undefined,
    )({ agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' }, servers: [{ name: 'docs' }] });

  test('those that are prepared where tasks are configured', async () => {
    expect(await prepared({})).toMatchObject({ tasks: true });
    expect(await prepared({ seconds: 60 })).toMatchObject({ tasks: true });
  });

  test('where they are not, nothing is said, as in earlier releases (INV-D1)', async () => {
    expect(await prepared()).not.toHaveProperty('tasks');
  });
});

// Where a run queues: as early as its operator lets it, and always as its tenant.

function of(fairness: (typeof Fairness)['_zod']['input'], tenant: string, priority?: number) {
  const initiator = { id: 'ann', groups: [], tenant };
  return priorityOf(Fairness.parse(fairness), {
    ...runSpec(),
    initiator,
    ...defined({ priority }),
  });
}

test('who says nothing is in the middle, as its tenant', () => {
  expect(of({}, 'acme')).toEqual({ priorityKey: 3, fairnessKey: 'acme', fairnessWeight: 1 });
});

test('a run may step back, and comes before others only as far as the operator lets it', () => {
  expect(of({}, 'acme', 5).priorityKey).toBe(5);
  expect(of({}, 'acme', 1).priorityKey).toBe(3);
  expect(of({ highest: 2 }, 'acme', 1).priorityKey).toBe(2);
  expect(of({ highest: 1, priority: 4 }, 'acme').priorityKey).toBe(4);
  expect(of({ priority: 1 }, 'acme').priorityKey).toBe(3);
});

test('what stands for a tenant counts for it alone', () => {
  const tenants = { acme: { weight: 2.5, highest: 1, priority: 2 }, 'constructor-like': { weight: 9 } };
  expect(of({ tenants }, 'acme')).toEqual({ priorityKey: 2, fairnessKey: 'acme', fairnessWeight: 2.5 });
  expect(of({ tenants }, 'acme', 1).priorityKey).toBe(1);
  expect(of({ tenants }, 'other', 1)).toEqual({ priorityKey: 3, fairnessKey: 'other', fairnessWeight: 1 });
  expect(of({ tenants }, 'constructor').fairnessWeight).toBe(1);
  expect(of({ tenants: { acme: {} } }, 'acme')).toEqual({ priorityKey: 3, fairnessKey: 'acme', fairnessWeight: 1 });
});

test('a tenant whose name is longer than a key of Temporal has a key of its own all the same', () => {
  const [one, other] = ['a', 'b'].map((end) => of({}, `${'x'.repeat(100)}${end}`).fairnessKey);
  expect(one).not.toBe(other);
  expect(one).toHaveLength(64);
});

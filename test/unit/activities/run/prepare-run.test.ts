/** What a run is given at its start: limits, prices, pauses, servers, and its place in the queue. */
import { describe, expect, test } from '@jest/globals';
import { createPrepareRun, priorityOf } from '../../../../activities/run/prepare-run.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { PolicyInput } from '../../../../contracts/schemas/policy.ts';
import { Fairness, RunSpec, type RunSpecInput } from '../../../../contracts/schemas/run-spec.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { runSpec } from '../../../support/builders/run-spec.ts';
import { atPath, withCode } from '../../../support/refusal.ts';

const SCRIPTED = { provider: 'scripted' as const, script: { steps: [{ text: 'done' }] } };
const EUR = { input: '2.50', output: '10', currency: 'EUR' };
const SPEC = { agent: { name: 'clerk', model: 'm' }, input: 'go', initiator: { id: 'ann' } };
const urlOf = (name: string): string => `https://${name}.example/mcp`;
/** Servers by name, at addresses of their names, and one that only a run may bring. */
const serving = (servers: Readonly<Record<string, object>>): ConfigInput => ({
  servers: Object.fromEntries(Object.entries(servers).map(([name, more]) => [name, { url: urlOf(name), ...more }])),
  egress: { runServers: ['https://own.example'] },
});
const OWN = { name: 'own', url: urlOf('own') };

async function prepared(config: ConfigInput, over: Partial<RunSpecInput> = {}) {
  const models = { m: SCRIPTED, paid: { ...SCRIPTED, price: EUR } };
  return await createPrepareRun(Config.parse({ models, ...config }), async () => undefined)({ ...SPEC, ...over });
}

describe('INV-D3: the record of a run', () => {
  const sign = { kid: 'w', privateKeyFile: 'ledger.pem' };

  test("is its history where no sink keeps ledgers; a sink's workers say nothing", async () => {
    expect(await prepared({})).toMatchObject({ records: 'history' });
    expect(await prepared({ ledger: { sign, directory: 'ledger' } })).not.toHaveProperty('records');
  });
});

describe('INV-G1: a run goes on in stretches', () => {
  test('with the bounds of the operator', async () => {
    expect((await prepared({ execution: { stretch: { turns: 3 } } })).stretch).toMatchObject({ turns: 3 });
  });

  test.each<[string, ConfigInput]>([
    ['where the operator wants none', { execution: { stretch: { turns: 0 } } }],
    ['in trust mode signed: nobody proves the record', { trust: { mode: 'signed', jwks: 'trust.jwks' } }],
  ])('but not %s', async (_where, config) => {
    expect(await prepared(config)).not.toHaveProperty('stretch');
  });
});

describe('INV-G4: of its servers, those of which the operator says so', () => {
  const desk = (holdSeconds: number) => serving({ desk: { elicitation: { holdSeconds } }, files: {} });

  test('may keep calls waiting for people on an open connection, each for its time', async () => {
    const { servers } = await prepared(desk(300), { servers: [{ name: 'desk' }, { name: 'files' }, OWN] });
    expect(servers.map(({ name, holdSeconds }) => [name, holdSeconds])).toEqual([
      ['desk', 300],
      ['files', undefined],
      ['own', undefined],
    ]);
  });

  test.each([29, 3_601, 30.5])('not for %d seconds', (seconds) => {
    expect(() => Config.parse(desk(seconds))).toThrow('holdSeconds');
  });

  test.each([30, 3_600])('for %d seconds', (seconds) => {
    expect(Config.parse(desk(seconds)).servers['desk']?.elicitation).toEqual({ holdSeconds: seconds });
  });

  test('have the links of their results read; where there are none, nothing is said', async () => {
    const read = { resourceLinks: 'read' };
    const docs = serving({ docs: read, unused: read, files: {} });
    expect((await prepared(docs, { servers: [{ name: 'files' }, { name: 'docs' }, OWN] })).links).toEqual(['docs']);
    expect(await prepared(docs, { servers: [{ name: 'files' }] })).not.toHaveProperty('links');
  });

  test.each([[{}], [{ seconds: 60 }]])('have tasks that the run waits for (%j)', async (tasks) => {
    const servers = [{ name: 'docs' }];
    expect(await prepared(serving({ docs: { tasks } }), { servers })).toMatchObject({ tasks: true });
  });

  test('where no tasks are configured, nothing is said', async () => {
    expect(await prepared(serving({ docs: {} }), { servers: [{ name: 'docs' }] })).not.toHaveProperty('tasks');
  });
});

describe('INV-D3: what all calls of a turn send at once fits into one workflow task, or the run is refused', () => {
  const bank = serving({ bank: { credentials: { kind: 'none' } } });
  const wanting = (tools: number, callsPerTurn: number): Partial<RunSpecInput> => ({
    servers: [
      { name: 'bank', allowedTools: Array.from({ length: tools }, (_, index) => `${'t'.repeat(120)}${index}`) },
    ],
    limits: { callsPerTurn, resultBytes: 8_192 },
  });

  test.each([
    [1_000, 8],
    [10, 64],
  ])('%i tools and %i calls a turn may run', async (tools, callsPerTurn) => {
    await expect(prepared(bank, wanting(tools, callsPerTurn))).resolves.toMatchObject({ limits: { callsPerTurn } });
  });

  test('a long list and many calls together are refused, with the limit to lower', async () => {
    await expect(prepared(bank, wanting(1_000, 64))).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('limits.callsPerTurn (64)'),
      facts: { path: 'limits.callsPerTurn' },
    });
  });

  test.each<[object, object, number]>([
    [{}, {}, 262_144],
    [{ resultBytesPerTurn: 20_000 }, {}, 20_000],
    [{}, { resultBytesPerTurn: 100_000 }, 100_000],
    [{ resultBytesPerTurn: 300_000 }, { resultBytesPerTurn: 100_000 }, 100_000],
  ])('asked %j under a ceiling of %j, its turns have room for %i bytes', async (limits, ceilings, room) => {
    const { limits: given } = await prepared({ ...bank, limits: ceilings }, { ...wanting(1, 8), limits });
    expect(given.resultBytesPerTurn).toBe(room);
  });

  test('a spec that does not say has the hash that it had before there was such a limit', () => {
    const parsed = RunSpec.parse({ ...SPEC, ...wanting(1, 8) });
    expect(Object.keys(parsed.limits)).not.toContain('resultBytesPerTurn');
  });
});

describe('INV-X1: what it asks people besides consent, and whom', () => {
  const asks = { unknownOutcomes: 'ask', missingAuthorization: 'ask' } as const;
  const record = { unknownOutcomes: 'record' } as const;
  const fail = { missingAuthorization: 'fail' } as const;

  test.each<[string, PolicyInput, PolicyInput, readonly string[]]>([
    ['all of it, where nobody says anything else', {}, {}, ['outcome', 'input', 'authorization']],
    ['all of it, where both say so', asks, asks, ['outcome', 'input', 'authorization']],
    ['not what became of a call, where the organisation records it', record, {}, ['input', 'authorization']],
    ['nor where only the run would ask', record, { unknownOutcomes: 'ask' }, ['input', 'authorization']],
    ['nor where the run records it', {}, record, ['input', 'authorization']],
    ['no authorization, where the organisation lets such calls fail', fail, {}, ['outcome', 'input']],
    ['nor where only the run would ask for it', fail, { missingAuthorization: 'ask' }, ['outcome', 'input']],
    ['nor where the run lets them fail', {}, fail, ['outcome', 'input']],
    ['what servers ask, in any case', { ...record, ...fail }, {}, ['input']],
  ])('%s', async (_, organisation, policy, pauses) => {
    expect((await prepared({ policy: organisation }, { policy })).pauses).toEqual(pauses);
  });

  test('of whoever started it, or of those whom policy names', async () => {
    expect((await prepared({})).answerers).toEqual({
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      deadlineSeconds: 86_400,
    });
    expect(
      (await prepared({ policy: { approvers: { groups: ['ops'] }, deadlineSeconds: 60 } })).answerers,
    ).toMatchObject({
      approvers: { allOf: [{ layer: 'organisation', ids: [], groups: ['ops'] }] },
      deadlineSeconds: 60,
    });
  });
});

describe('its own rules', () => {
  const counting = { rules: [{ id: 'a', when: 'earlier["a/b"].total > 1', then: 'ask' as const }] };
  const plain = { rules: [{ id: 'a', when: 'args.x > 1.0', then: 'ask' as const }] };

  test('have earlier calls counted where a rule of either layer asks for them, and nowhere else', async () => {
    expect(await prepared({ policy: counting })).toMatchObject({ tally: true });
    expect(await prepared({ policy: plain }, { policy: counting })).toMatchObject({ tally: true });
    expect(await prepared({ policy: plain }, { policy: plain })).not.toHaveProperty('tally');
  });

  test('are counted with what they add to each call among what a turn sends', async () => {
    const limits = { callsPerTurn: 64, argumentBytesPerTurn: 524_288, resultBytes: 8_192 };
    // 40 kB of rules for each of 64 calls fit, and the tally beside them does not.
    const explain = 'x'.repeat(450);
    const rules = Array.from({ length: 70 }, (_, index) => ({ id: `r${index}`, then: 'ask' as const, explain }));
    await expect(prepared({ policy: plain }, { policy: { rules }, limits })).resolves.toMatchObject({ limits });
    await expect(prepared({ policy: counting }, { policy: { rules }, limits })).rejects.toMatchObject({
      facts: { path: 'limits.callsPerTurn' },
    });
  });

  const broken = { reason: 'Mine.', until: '2126-01-01T00:00:00.000Z' };
  const ask = { id: 'a', then: 'ask' };
  test.each<[string, object, string]>([
    ['halt: only the organisation does', { halt: { reason: 'Mine.' } }, 'policy.halt'],
    [
      'break glass: only the organisation does',
      { rules: [{ id: 'a', then: 'allow', breakGlass: broken }] },
      'policy.rules[0].breakGlass',
    ],
    ['have a condition that cannot be evaluated', { rules: [{ ...ask, when: 'x' }] }, 'policy.rules[0].when'],
    ['have one id twice', { rules: [ask, ask] }, 'policy.rules[1].id'],
  ])('INV-G4: may not %s; the refusal has its path', async (_, policy, path) => {
    await expect(prepared({}, { policy })).rejects.toMatchObject(atPath('SPEC_INVALID', path));
  });
});

test('a slip in the schema of its answer is refused before the model is asked', async () => {
  const agent = { name: 'clerk', model: 'm', output: { type: 'objct' } };
  await expect(prepared({}, { agent })).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    message: expect.stringContaining('agent.output has type "objct", which is none of '),
    facts: { path: 'agent.output' },
  });
});

test('a schema that the validator would read for ever is left to the check of the answer, which has its time', async () => {
  let output: Record<string, unknown> = {};
  for (let level = 0; level < 40; level += 1) output = { $id: `https://x.example/${level}`, not: output };
  await expect(prepared({}, { agent: { name: 'clerk', model: 'm', output } })).resolves.toBeDefined();
});

describe('its spend', () => {
  const spending = async (ceilings: ConfigInput['limits'], model: string, spend?: string) =>
    await prepared({ limits: ceilings }, { agent: { name: 'clerk', model }, limits: defined({ spend }) });

  test('has the price of its model in whole millionths, and the limit that it asked for', async () => {
    expect(await spending({}, 'paid', '5.00')).toMatchObject({
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
    expect((await spending({ spend: ceiling }, 'paid', asked)).limits.spend).toBe(spend);
  });

  test.each([
    [{}, '5.00'],
    [{ spend: '5.00' }, undefined],
  ])('INV-G4: a model without a price is refused where spend is limited (%o, %s)', async (ceilings, asked) => {
    await expect(spending(ceilings, 'm', asked)).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      message: expect.stringContaining('models.m.price'),
      facts: { path: 'agent.model' },
    });
  });

  test('it needs none where spend is not', async () => {
    const run = await spending({}, 'm');
    expect(run).not.toHaveProperty('price');
    expect(run.limits).not.toHaveProperty('spend');
  });

  test.each(['0', '0.00', '-1', '1e3', '.5', '1.0000001', 'five', 5, 2.5])('a limit of %p is refused', (spend) => {
    expect(RunSpec.safeParse({ ...SPEC, limits: { spend } }).error?.issues[0]?.path).toEqual(['limits', 'spend']);
  });
});

describe('a configuration of prices', () => {
  const check = (config: ConfigInput) => () => checkConfig(Config.parse(config), 'configuration');
  const priced = (price: object) => ({ ...SCRIPTED, price: { ...EUR, ...price } });

  test('says what every model costs where spend is limited, and "0" is a price', () => {
    const limits = { spend: '5' };
    const unpriced = { paid: priced({}), own: SCRIPTED };
    expect(check({ limits, models: { paid: priced({}), own: priced({ input: '0', output: '0' }) } })).not.toThrow();
    expect(check({ limits, models: unpriced })).toThrow('models.own.price is missing');
    expect(check({ models: unpriced })).not.toThrow();
  });

  test('has one currency', () => {
    const models = { one: priced({}), other: priced({ currency: 'USD' }) };
    expect(check({ models })).toThrow('models.other.price.currency must be EUR');
  });

  test.each([2.5, '2,50', '-1', '1.0000001'])('takes no price of %p', (input) => {
    const models = { paid: priced({ input }) };
    expect(Config.safeParse({ models }).error?.issues[0]?.path).toEqual(['models', 'paid', 'price', 'input']);
  });
});

describe('its place in the queue: as early as its operator lets it, and always as its tenant', () => {
  const of = (fairness: (typeof Fairness)['_zod']['input'], tenant: string, priority?: number) =>
    priorityOf(Fairness.parse(fairness), {
      ...runSpec(),
      initiator: { id: 'ann', groups: [], tenant },
      ...defined({ priority }),
    });
  const tenants = { acme: { weight: 2.5, highest: 1, priority: 2 }, 'constructor-like': { weight: 9 } };

  test.each<[string, ...Parameters<typeof of>, number, number]>([
    ['who says nothing is in the middle', {}, 'acme', undefined, 3, 1],
    ['a run may step back', {}, 'acme', 5, 5, 1],
    ['and comes before no other by its own word', {}, 'acme', 1, 3, 1],
    ['only as far as the operator lets it', { highest: 2 }, 'acme', 1, 2, 1],
    ['what the operator gives to all may be later', { highest: 1, priority: 4 }, 'acme', undefined, 4, 1],
    ['and no earlier than the highest', { priority: 1 }, 'acme', undefined, 3, 1],
    ['what stands for a tenant counts for it', { tenants }, 'acme', undefined, 2, 2.5],
    ['up to its own highest', { tenants }, 'acme', 1, 1, 2.5],
    ['and for no other', { tenants }, 'other', 1, 3, 1],
    ['not even for a property that every object has', { tenants }, 'constructor', undefined, 3, 1],
    ['an empty entry says nothing', { tenants: { acme: {} } }, 'acme', undefined, 3, 1],
  ])('%s', (_, fairness, tenant, asked, priorityKey, fairnessWeight) => {
    expect(of(fairness, tenant, asked)).toEqual({ priorityKey, fairnessKey: tenant, fairnessWeight });
  });

  test('a tenant whose name is longer than a key of Temporal has a key of its own all the same', () => {
    const [one, other] = ['a', 'b'].map((end) => of({}, `${'x'.repeat(100)}${end}`).fairnessKey);
    expect(one).not.toBe(other);
    expect(one).toHaveLength(64);
  });
});

describe('INV-X1: the provider of a model calls servers only if it asks before each call', () => {
  const openai = { provider: 'openai' as const, model: 'gpt', apiKey: 'key-of-the-model' };
  const elsewhere = { ...openai, baseUrl: 'https://models.example/v1' };
  const models = {
    own: openai,
    elsewhere,
    sure: { ...elsewhere, asksBeforeCalls: true },
    doubted: { ...openai, asksBeforeCalls: false },
    denied: { ...elsewhere, asksBeforeCalls: false },
    other: { ...openai, provider: 'anthropic' as const, asksBeforeCalls: true },
  };

  test.each([
    ['own', 'own'],
    ['sure', 'sure'],
    ['elsewhere', undefined],
    ['doubted', undefined],
    ['denied', undefined],
    ['other', undefined],
  ])('through model %s the server is called by %s', async (model, hosted) => {
    const config = { ...serving({ bank: { execute: 'auto' }, far: { execute: 'hosted' } }), models };
    const agent = { name: 'clerk', model };
    const { servers } = await prepared(config, { agent, servers: [{ name: 'bank' }] });
    expect(servers.map((server) => server.hosted)).toEqual([hosted]);
    const far = prepared(config, { agent, servers: [{ name: 'far' }] });
    if (hosted === undefined) await expect(far).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    else expect((await far).servers[0]?.hosted).toBe(hosted);
  });

  test.each(['2nd', 'my.bank'])('a server named %s is refused if a provider may call it', (name) => {
    const check = (execute?: 'auto' | 'hosted' | 'local') => () =>
      checkConfig(Config.parse(serving({ [name]: execute === undefined ? {} : { execute } })), 'configuration');
    for (const execute of ['auto', 'hosted'] as const) expect(check(execute)).toThrow(/providers do not take/);
    for (const execute of ['local', undefined] as const) expect(check(execute)).not.toThrow(/providers do not take/);
  });

  const bound = {
    kind: 'client-credentials' as const,
    issuer: 'https://idp.example.com',
    clientId: 'a',
    clientSecret: 'b',
    senderConstrained: 'required' as const,
  };

  test('a server whose tokens must be bound to a key is called by this service, which alone can show them', async () => {
    const config = { ...serving({ bank: { execute: 'auto', credentials: bound } }), models };
    const agent = { name: 'clerk', model: 'own' };
    const { servers } = await prepared(config, { agent, servers: [{ name: 'bank' }] });
    expect(servers.map((server) => server.hosted)).toEqual([undefined]);
    await expect(prepared(config, { agent, servers: [{ name: 'bank', execute: 'hosted' }] })).rejects.toMatchObject(
      withCode('HOSTED_UNSUPPORTED', 'senderConstrained'),
    );
  });

  test('a server whose tokens must be bound to a key is refused if a provider is to call it', () => {
    const check = (execute: 'auto' | 'hosted', credentials: object) => () =>
      checkConfig(Config.parse(serving({ bank: { execute, credentials } })), 'configuration');
    expect(check('hosted', bound)).toThrow(/servers\.bank\.execute is hosted.*senderConstrained: required/);
    expect(check('hosted', { ...bound, senderConstrained: 'preferred' })).not.toThrow();
    expect(check('auto', bound)).not.toThrow();
  });

  test('asksBeforeCalls is refused where no provider calls servers', () => {
    const { other } = models;
    const check = () => checkConfig(Config.parse({ models: { other } }), 'configuration');
    expect(check).toThrow(/models\.other\.asksBeforeCalls is for models of provider openai/);
  });

  test.each([
    ['own', true],
    ['sure', true],
    ['elsewhere', false],
    ['doubted', false],
    ['other', false],
  ] as const)('storesAnswers is for models whose provider calls servers: %s', (name, may) => {
    const { [name]: model } = models;
    const check = (storesAnswers: boolean) => () => {
      const quiet = { ...model, ...(name === 'other' ? { asksBeforeCalls: false } : {}), storesAnswers };
      checkConfig(Config.parse({ models: { [name]: quiet } }), 'configuration');
    };
    expect(check(false)).not.toThrow();
    if (may) expect(check(true)).not.toThrow();
    else expect(check(true)).toThrow(/storesAnswers is for models whose provider calls servers/);
  });
});

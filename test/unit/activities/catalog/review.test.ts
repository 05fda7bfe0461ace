/** What the configuration says of a change of a catalog (S3.6). */
import { describe, expect, test } from '@jest/globals';
import { createReviewChange } from '../../../../activities/catalog/review.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { ReviewInput } from '../../../../contracts/wire/catalog.ts';

const BASE = { tenant: 'default', server: 'bank', by: { id: 'ann', groups: [] } };
const URL = 'https://bank.example/mcp';
const SETTING = { enabled: true, requiresApproval: true, denied: false };
/** Not in use, so that all of a setting is new. */
const OFF = { enabled: false, requiresApproval: false, denied: false };

async function review(given: ConfigInput, wanted: Partial<ReviewInput>) {
  const config = Config.parse(given);
  return await createReviewChange(config)({ ...BASE, ...wanted });
}

async function objections(given: ConfigInput, wanted: Partial<ReviewInput>): Promise<string[]> {
  return (await review(given, wanted)).objections.map(({ path }) => path);
}

describe('a connection', () => {
  const connection = (over: object = {}) => ({ connection: { url: URL, trusted: false, ...over } });
  const catalog = { origins: ['https://bank.example'] };
  const use = { kind: 'none' } as const;

  test.each<[string, ConfigInput, object, string[]]>([
    ['to a listed origin', { catalog }, {}, []],
    ['to any other', {}, {}, ['url']],
    ['to an address that is none', { catalog }, { url: 'https://1.2.3.4.5/mcp' }, ['url']],
    ['without TLS', { catalog: { origins: ['http://bank.example'] } }, { url: 'http://bank.example/mcp' }, ['url']],
    ['to a private address', { catalog: { origins: ['https://10.0.0.5'] } }, { url: 'https://10.0.0.5/mcp' }, ['url']],
    ['under a configured name, at its address', { servers: { bank: { url: URL, credentials: use } } }, {}, []],
    ['of a server that takes the token of each run', { servers: { bank: { url: URL } } }, {}, ['server']],
    [
      'under a configured name, elsewhere',
      { catalog, servers: { bank: { url: `${URL}/2`, credentials: use } } },
      {},
      ['url'],
    ],
    [
      'with credentials of its own under a configured name',
      { servers: { bank: { url: URL, credentials: use } } },
      { credentials: 'x' },
      ['credentials'],
    ],
    [
      'with credentials for that origin',
      { catalog, credentials: { x: { use, origins: ['https://bank.example'] } } },
      { credentials: 'x' },
      [],
    ],
    [
      'with credentials for another origin',
      { catalog, credentials: { x: { use, origins: ['https://other.example'] } } },
      { credentials: 'x' },
      ['credentials'],
    ],
    [
      'with credentials of another tenant',
      { catalog, credentials: { x: { use, origins: ['https://bank.example'], tenants: ['other'] } } },
      { credentials: 'x' },
      ['credentials'],
    ],
    ['with credentials that nobody configured', { catalog }, { credentials: 'constructor' }, ['credentials']],
    ['on the queue of runs', { catalog, taskQueue: 'q' }, { taskQueue: 'q' }, []],
    ['on a queue of no worker', { catalog }, { taskQueue: 'q' }, ['taskQueue']],
  ])('%s', async (_, config, over, paths) => {
    expect(await objections(config, connection(over))).toEqual(paths);
  });
});

describe('what a deployment cannot honour', () => {
  const rule = (over: object): ConfigInput => ({
    catalog: {
      origins: ['https://bank.example'],
      unsupported: [{ setting: 'requiresApproval', reason: 'no.', ...over }],
    },
  });
  const wanted = { settings: [{ tool: 'pay', setting: SETTING, before: OFF }] };

  test('is refused where the rule fits, and nowhere else', async () => {
    expect(await objections(rule({}), wanted)).toEqual(['tools.pay.requiresApproval']);
    expect(await objections(rule({ tools: ['pay'], servers: ['bank'], tenants: ['default'] }), wanted)).toHaveLength(1);
    for (const other of [{ tools: ['lookup'] }, { servers: ['shop'] }, { tenants: ['other'] }])
      expect(await objections(rule(other), wanted)).toEqual([]);
  });

  test('each setting by its name', async () => {
    const named = (setting: object) => ({
      settings: [{ tool: 'pay', setting: { ...SETTING, ...setting }, before: OFF }],
    });
    expect(await objections(rule({ setting: 'enabled' }), named({}))).toEqual(['tools.pay.enabled']);
    expect(await objections(rule({}), named({ requiresApproval: false }))).toEqual([]);
    const approvers = { ids: ['cfo'], groups: [] };
    expect(await objections(rule({ setting: 'approvers' }), named({ approvers }))).toEqual(['tools.pay.approvers']);
    expect(await objections(rule({ setting: 'approvers' }), named({}))).toEqual([]);
    const connection = { url: URL, trusted: true, taskQueue: 'countersign' };
    expect(await objections(rule({ setting: 'trusted' }), { connection })).toEqual(['trusted']);
    expect(await objections(rule({ setting: 'taskQueue' }), { connection })).toEqual(['taskQueue']);
    expect(await objections(rule({ setting: 'credentials' }), { connection })).toEqual([]);
  });

  test('what stands already is not objected to, so that tightening stays possible', async () => {
    const tighter = { ...SETTING, deadlineSeconds: 60 };
    const asked = { settings: [{ tool: 'pay', setting: tighter, before: SETTING }] };
    expect(await objections(rule({}), asked)).toEqual([]);
    expect(await objections(rule({ setting: 'enabled' }), asked)).toEqual([]);
    // A tool that comes back into use brings it with it.
    const back = { settings: [{ tool: 'pay', setting: SETTING, before: { ...SETTING, denied: true } }] };
    expect(await objections(rule({}), back)).toEqual(['tools.pay.requiresApproval']);
  });

  test('a list of approvers that names nobody would let every request expire', async () => {
    const setting = { ...SETTING, approvers: { ids: [], groups: [] } };
    expect(await objections({}, { settings: [{ tool: 'pay', setting, before: OFF }] })).toEqual([
      'tools.pay.approvers',
    ]);
  });
});

test('the rules are those of the tenant, and no one else may anything (INV-G4)', async () => {
  const administrators = [
    { ids: ['ann'], may: ['tighten' as const] },
    { tenant: 'other', groups: ['ops'], may: ['connect' as const] },
  ];
  const config = { catalog: { administrators, loosening: 'countersign' as const, newTools: 'strategy' as const } };
  expect((await review(config, {})).rules).toEqual({
    administrators: [{ ids: ['ann'], groups: [], may: ['tighten'] }],
    loosening: 'countersign',
    newTools: 'strategy',
  });
  expect((await review(config, { tenant: 'third' })).rules.administrators).toEqual([]);
});

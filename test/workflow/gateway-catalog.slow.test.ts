/** Catalogs over HTTP: what administrators see and set is what the catalog holds, and refusals change nothing. */
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Tool } from '@modelcontextprotocol/server';
import {
  CatalogDetail,
  CatalogPage,
  CatalogToolDetail,
  ImportAnswer,
  type SetToolsBody,
} from '../../contracts/schemas/http/catalogs.ts';
import {
  type Answered,
  type Caller,
  callerOf,
  type Claims,
  startTestGateway,
  startTestProvider,
} from '../support/scenes/gateway-world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { factsOf } from '../support/world/run-record.ts';
import { useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const object = { type: 'object' } as const;
const TOOLS: readonly Tool[] = [
  { name: 'pay', description: 'Pays an amount.', inputSchema: object },
  { name: 'issues/close', description: 'Closes.', inputSchema: object },
  { name: 'lookup', inputSchema: object },
];

const tools: Tool[] = [];
let names = 0;
let server = '';
let ann: Caller;
let cleo: Caller;
let tim: Caller;

const provider = during(() => startTestProvider());
const shop = during(() => startRecordingServer({ tools }));
const world = useWorld(() => ({
  config: {
    policy: { approvers: { groups: ['ops'] } },
    catalog: {
      administrators: [
        { ids: ['ann', 'cleo'], may: ['connect', 'loosen', 'tighten'] },
        { groups: ['night'], may: ['tighten'] },
      ],
      origins: [new URL(shop.url).origin],
      loosening: 'countersign',
    },
  },
}));
const gateway = during(() => startTestGateway(world, provider, { config: { may: { read: { groups: ['audit'] } } } }));
beforeAll(async () => {
  ann = await as('ann');
  cleo = await as('cleo');
  tim = await as({ sub: 'tim', groups: ['night'] });
});

/** Each test has a catalog of its own. */
beforeEach(async () => {
  tools.splice(0, tools.length, ...TOOLS);
  server = `shop-${(names += 1)}`;
  const connected = await ann('POST', at('/connect'), { url: shop.url });
  expect(connected).toMatchObject({ status: 200, body: { status: 'applied', policyVersion: 1, refresh: 1 } });
  await refreshed(1);
});

async function as(claims: Claims | string): Promise<Caller> {
  return callerOf(gateway, await provider.token(typeof claims === 'string' ? { sub: claims } : claims));
}

const at = (path = ''): string => `/v1/catalogs/${server}${path}`;

async function read(by = ann): Promise<CatalogDetail> {
  return CatalogDetail.parse((await by('GET', at())).body);
}

async function refreshed(refresh: number): Promise<CatalogDetail> {
  return await until(
    async () => {
      const detail = await read();
      return detail.lastRefresh !== undefined && detail.lastRefresh.refresh >= refresh && detail;
    },
    { what: 'the refresh' },
  );
}

async function set(by: Caller, ...changes: SetToolsBody['changes']): Promise<Answered> {
  return await by('POST', at('/tools'), { expectedVersion: (await read()).version, changes });
}

describe('a catalog', () => {
  test('is listed with its counts, and read with settings, hashes, verdicts and what one may do', async () => {
    const { catalogs, unread } = CatalogPage.parse((await ann('GET', '/v1/catalogs')).body);
    expect(unread).toEqual([]);
    expect(catalogs.find((each) => each.server === server)).toMatchObject({
      status: 'connected',
      version: 1,
      counts: { tools: 3, enabled: 3, asking: 3, denied: 0, changed: 0, missing: 0 },
      waiting: 0,
      refreshing: false,
    });
    const detail = await read();
    expect(detail.tools.map(({ name, changed, verdict }) => [name, changed, verdict?.kind])).toEqual([
      ['issues/close', false, 'ask'],
      ['lookup', false, 'ask'],
      ['pay', false, 'ask'],
    ]);
    const snapshot = await world.countersign.catalog(server).snapshot();
    expect(detail.tools.map(({ definition }) => definition)).toEqual(
      snapshot.entries.map(({ definition }) => definition.hash),
    );
    expect(detail).toMatchObject({
      tenant: 'default',
      refreshed: { refresh: 1, added: ['issues/close', 'lookup', 'pay'], missing: [], returned: [], changed: [] },
      ledger: { length: snapshot.ledgerLength, head: snapshot.ledgerHead },
      may: ['connect', 'loosen', 'tighten'],
      offers: ['connect', 'disconnect', 'refresh', 'loosen', 'tighten'],
    });
    expect(await read(tim)).toMatchObject({ may: ['tighten'], offers: ['refresh', 'tighten'] });
    expect(await read(await as({ sub: 'rea', groups: ['audit'] }))).toMatchObject({ may: [], offers: [] });
  });

  test('takes changes in the name of the token, of the version that was read, all of them or none', async () => {
    expect(await set(tim, { tool: 'pay', denied: true }, { tool: 'lookup', enabled: false })).toMatchObject({
      status: 200,
      body: { status: 'applied', policyVersion: 2 },
    });
    expect(await read()).toMatchObject({ counts: { tools: 3, enabled: 2, asking: 1, denied: 1 } });
    const said = { expectedVersion: 1, changes: [{ tool: 'pay', enabled: false }] };
    expect(await tim('POST', at('/tools'), said)).toMatchObject({
      status: 409,
      body: { code: 'CATALOG_VERSION_CONFLICT', facts: { policyVersion: 2 } },
    });
    expect(await tim('POST', at('/tools'), { ...said, by: { id: 'ann' } })).toMatchObject({ status: 422 });
    expect(
      await tim('POST', at('/tools'), { expectedVersion: 2, changes: [{ tool: 'pay', enabled: 'no' }] }),
    ).toMatchObject({ status: 422, body: { code: 'USAGE', errors: [{ path: 'changes[0].enabled' }] } });
    expect(await set(tim, { tool: 'lookup', enabled: true })).toMatchObject({
      status: 403,
      body: { code: 'CATALOG_FORBIDDEN', facts: { right: 'loosen' } },
    });
    expect(await set(ann, { tool: 'pai', denied: true })).toMatchObject({
      status: 404,
      body: { code: 'TOOL_UNKNOWN' },
    });
    const facts = factsOf(await world.countersign.catalog(server).ledger(), 'catalog.policy');
    expect(facts.map(({ by, changes }) => [by, changes.map(({ tool }) => tool)])).toEqual([
      [{ id: 'tim', groups: ['night'] }, ['pay', 'lookup']],
    ]);
  });

  test('counts a message sent again once, and refuses another one under its key', async () => {
    const said = { expectedVersion: 1, changes: [{ tool: 'pay', denied: true }] };
    const key = { 'idempotency-key': `once-${server}` };
    const first = await tim('POST', at('/tools'), said, key);
    expect(first).toMatchObject({ status: 200, body: { policyVersion: 2 } });
    expect((await tim('POST', at('/tools'), said, key)).body).toEqual(first.body);
    expect(
      (await tim('POST', at('/tools'), { ...said, changes: [{ tool: 'lookup', denied: true }] }, key)).status,
    ).toBe(422);
    expect(await read()).toMatchObject({ version: 2 });
  });

  test('shows a loosening to the second administrator, who decides what was shown', async () => {
    expect(await set(ann, { tool: 'pay', requiresApproval: false })).toMatchObject({
      status: 200,
      body: { status: 'waiting', changeId: 'change-1' },
    });
    const [own] = (await read()).pending;
    const [pending] = (await read(cleo)).pending;
    expect([own?.offers, pending?.offers, (await read(tim)).pending[0]?.offers]).toEqual([
      ['reject'],
      ['approve', 'reject'],
      [],
    ]);
    expect(pending).toMatchObject({
      by: { id: 'ann' },
      changes: [{ change: { tool: 'pay' }, before: { requiresApproval: true }, after: { requiresApproval: false } }],
    });
    const decide = async (by: Caller, over: object = {}): Promise<Answered> =>
      await by('POST', at('/changes/change-1/decisions'), { digest: pending?.digest, verdict: 'approve', ...over });
    expect(await decide(ann)).toMatchObject({ status: 403, body: { code: 'APPROVER_NOT_ENTITLED' } });
    expect(await decide(tim)).toMatchObject({ status: 403, body: { code: 'CATALOG_FORBIDDEN' } });
    expect(await decide(cleo, { digest: 'f'.repeat(64) })).toMatchObject({ status: 412 });
    expect(await decide(cleo)).toMatchObject({ status: 200, body: { status: 'applied', policyVersion: 2 } });
    expect(await decide(cleo)).toMatchObject({ status: 409, body: { code: 'REQUEST_NOT_OPEN' } });
    const detail = await read();
    expect(detail).toMatchObject({ pending: [], waiting: 0, counts: { asking: 2 } });
  });

  test('tells what a refresh changed, and each difference of a definition before somebody acknowledges it', async () => {
    tools.splice(
      0,
      2,
      { name: 'pay', description: 'Pays twice.', inputSchema: object },
      { name: 'new', inputSchema: object },
    );
    const { body } = await ann<{ refresh: number }>('POST', at('/refresh'), {});
    const detail = await refreshed(body.refresh);
    expect(detail).toMatchObject({
      refreshed: { added: ['new'], missing: ['issues/close'], changed: [{ tool: 'pay' }] },
      counts: { tools: 4, changed: 1, missing: 1 },
    });
    const tool = CatalogToolDetail.parse((await ann('GET', at('/tools/pay'))).body);
    expect(tool).toMatchObject({
      changed: true,
      definitions: { current: { description: 'Pays twice.' }, acknowledged: { description: 'Pays an amount.' } },
      differences: [{ path: 'description', before: 'Pays an amount.', after: 'Pays twice.' }],
    });
    expect(await set(ann, { tool: 'pay', acknowledge: 'f'.repeat(64) })).toMatchObject({ status: 409 });
    // A tool's name may have a slash.
    expect(await ann('GET', at('/tools/issues%2Fclose'))).toMatchObject({ status: 200, body: { status: 'missing' } });
    expect(await ann('GET', at('/tools/pai'))).toMatchObject({
      status: 404,
      body: { code: 'TOOL_UNKNOWN', detail: expect.stringContaining('pay') },
    });
  });

  test('is written as a file, and a changed file is planned and then applied', async () => {
    const file = await ann<{ tools: Record<string, object> }>('GET', at('/file'));
    expect(Object.keys(file.body.tools)).toEqual(['issues/close', 'lookup', 'pay']);
    const same = await ann('POST', at('/import'), { tools: file.body.tools });
    expect(same).toMatchObject({ status: 200, body: { status: 'unchanged', tools: [] } });
    const edited = { tools: { pay: { ...file.body.tools['pay'], denied: true } } };
    const plan = ImportAnswer.parse((await ann('POST', at('/import'), { ...edited, plan: true })).body);
    expect(plan).toMatchObject({
      status: 'planned',
      policyVersion: 1,
      tools: [{ change: { tool: 'pay', denied: true } }],
    });
    expect(await read()).toMatchObject({ version: 1 });
    expect(await ann('POST', at('/import'), edited)).toMatchObject({ status: 200, body: { status: 'applied' } });
    expect(await read()).toMatchObject({ version: 2, counts: { denied: 1 } });
    expect(
      await ann('POST', at('/import'), { tools: { pai: { enabled: true, requiresApproval: true, denied: false } } }),
    ).toMatchObject({ status: 404, body: { code: 'TOOL_UNKNOWN' } });
  });

  test('is disconnected and connected again with its settings; its ledger has all of it', async () => {
    await set(tim, { tool: 'pay', denied: true });
    expect(await tim('POST', at('/disconnect'), { expectedVersion: 2 })).toMatchObject({ status: 403 });
    expect(await ann('POST', at('/disconnect'), { expectedVersion: 2 })).toMatchObject({ status: 200 });
    expect(await read()).toMatchObject({ status: 'disconnected', offers: ['connect', 'loosen', 'tighten'] });
    expect(await ann('POST', at('/connect'), { url: shop.url })).toMatchObject({ status: 409 });
    const again = await ann<{ refresh: number }>('POST', at('/connect'), { url: shop.url, expectedVersion: 3 });
    expect(again.status).toBe(200);
    await refreshed(again.body.refresh);
    expect(await read()).toMatchObject({ status: 'connected', counts: { denied: 1 } });
    const { body } = await ann<{ entries: { fact: { kind: string } }[] }>('GET', at('/ledger'));
    expect(body.entries.map(({ fact }) => fact.kind)).toEqual([
      'catalog.connected',
      'catalog.refreshed',
      'catalog.policy',
      'catalog.disconnected',
      'catalog.connected',
      'catalog.refreshed',
    ]);
  });
});

test('a server is connected by those who may, where the operator lets it be, and begins no catalog otherwise', async () => {
  server = 'elsewhere';
  expect(await tim('POST', at('/connect'), { url: shop.url })).toMatchObject({
    status: 403,
    body: { code: 'CATALOG_FORBIDDEN' },
  });
  expect(await ann('POST', at('/connect'), {})).toMatchObject({ status: 422, body: { errors: [{ path: 'url' }] } });
  expect(await ann('GET', at())).toMatchObject({ status: 404, body: { code: 'CATALOG_NOT_FOUND' } });
  const { catalogs } = CatalogPage.parse((await ann('GET', '/v1/catalogs')).body);
  expect(catalogs.map((each) => each.server)).not.toContain('elsewhere');
  expect(await ann('POST', at('/connect'), { url: 'https://evil.example/mcp' })).toMatchObject({
    status: 403,
    body: { code: 'CATALOG_SETTING_UNSUPPORTED', facts: { path: 'url' } },
  });
});

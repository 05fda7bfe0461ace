/** What the gateway shows of catalogs: to whom, how often it asks for it, and what it offers. */
import { describe, expect, test } from '@jest/globals';
import type { Countersign } from '../../../client/index.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import type { CatalogEntry, CatalogSnapshot } from '../../../contracts/schemas/catalog.ts';
import type { Organisation } from '../../../domain/policy/judge.ts';
import { Catalogs } from '../../../gateway/catalog/catalogs.ts';
import { CatalogChanges } from '../../../gateway/catalog/changes.ts';
import { countsOf } from '../../../gateway/catalog/shown.ts';
import { catalogEntry, catalogSnapshot, connection, toolSetting } from '../../support/builders/catalog.ts';
import { codeOf } from '../../support/refusal.ts';
import { asker } from '../../support/scenes/asking.ts';

const SETTINGS = { administrators: [], policy: {}, trusted: {}, serverUrls: {}, repeatable: {}, isSigned: false };

function snapshotOf(server: string, entries: readonly CatalogEntry[] = []): CatalogSnapshot {
  return catalogSnapshot(entries, { tenant: 'default', server, connection: connection() });
}

interface Scene {
  readonly catalogs: Catalogs;
  readonly changes: CatalogChanges;
  /** Questions and messages, in order. */
  readonly asked: string[];
  readonly sent: object[];
  later(ms: number): void;
}

/** @param there servers whose catalogs answer; any other of `listed` does not */
function scene(listed: readonly string[] = ['shop'], there: readonly string[] = listed): Scene {
  const asked: string[] = [];
  const sent: object[] = [];
  let now = 0;
  const countersign = {
    catalogs: async () => {
      asked.push('list');
      return await Promise.resolve(listed.map((server) => ({ tenant: 'default', server })));
    },
    catalog: (server: string) => ({
      snapshot: async () => {
        asked.push(server);
        if (there.includes(server)) return await Promise.resolve(snapshotOf(server));
        const code = listed.includes(server) ? 'ENGINE_UNAVAILABLE' : 'CATALOG_NOT_FOUND';
        throw new CountersignError(code, 'no answer');
      },
      ledgerEntries: async () => await Promise.resolve([]),
      refresh: async (message: object) => {
        sent.push(message);
        return await Promise.resolve({ requestId: 'r', status: 'applied', policyVersion: 3 });
      },
    }),
  };
  const settings = {
    ...SETTINGS,
    administrators: [
      { tenant: 'default', ids: ['ann'], groups: [], may: ['connect' as const, 'loosen' as const] },
      { tenant: 'default', ids: [], groups: ['night'], may: ['tighten' as const] },
      { tenant: 'other', ids: ['olga'], groups: [], may: ['connect' as const] },
    ],
  };
  // Sound: these are what it uses.
  const catalogs = new Catalogs(countersign as unknown as Countersign, settings, () => now);
  const changes = new CatalogChanges(countersign as unknown as Countersign, catalogs);
  return { catalogs, changes, asked, sent, later: (ms) => void (now += ms) };
}

test('many viewers cause one question, and a message that was sent here another one', async () => {
  const { catalogs, changes, asked, later } = scene();
  const viewers = Array.from({ length: 50 }, (_, index) => asker({ id: `viewer-${index}`, seesAll: true }));
  const look = async () => await Promise.all(viewers.map(async (viewer) => await catalogs.read(viewer, 'shop')));
  await look();
  await look();
  expect(asked).toEqual(['shop']);
  await changes.send(asker({ id: 'ann' }), 'shop', { kind: 'refresh', body: {} });
  await look();
  expect(asked).toEqual(['shop', 'shop']);
  later(2_000);
  await look();
  expect(asked).toEqual(['shop', 'shop', 'shop']);
});

test('who administers no catalog of the tenant, and may not see all, is told that there is none', async () => {
  const { catalogs, changes, asked, sent } = scene();
  for (const person of [asker({ id: 'eve' }), asker({ id: 'olga' }), asker({ id: 'Ann' })]) {
    expect(await codeOf(catalogs.read(person, 'shop'))).toBe('CATALOG_NOT_FOUND');
    expect(await codeOf(changes.send(person, 'shop', { kind: 'refresh', body: {} }))).toBe('CATALOG_NOT_FOUND');
    expect(await catalogs.list(person)).toEqual({ catalogs: [], unread: [] });
  }
  expect([asked, sent]).toEqual([[], []]);
  expect((await catalogs.list(asker({ id: 'tim', groups: ['night'] }))).catalogs).toHaveLength(1);
});

test('a catalog that does not answer hides no other, and is named', async () => {
  const { catalogs } = scene(['bank', 'shop', 'yard'], ['bank', 'yard']);
  const page = await catalogs.list(asker({ id: 'ann' }));
  expect([page.catalogs.map(({ server }) => server), page.unread]).toEqual([['bank', 'yard'], ['shop']]);
});

describe('what happens to a call', () => {
  /** Shows what is said of the one tool of a catalog that never changes. */
  const showing = (first: Organisation) => {
    const entries = [catalogEntry({ name: 'pay' })];
    const handle = {
      snapshot: async () => await Promise.resolve(snapshotOf('bank', entries)),
      ledgerEntries: async () => await Promise.resolve([]),
    };
    let policy = first;
    let now = Date.parse('2026-06-01T10:00:00.000Z');
    const settings = {
      ...SETTINGS,
      get policy() {
        return policy;
      },
    };
    // Sound: nothing else of it is used.
    const catalogs = new Catalogs({ catalog: () => handle } as unknown as Countersign, settings, () => now);
    return {
      verdict: async () => (await catalogs.read(asker({ seesAll: true }), 'bank')).tools[0]?.verdict,
      follow: (next: Organisation) => void (policy = next),
      at: (time: string) => void (now = Date.parse(time)),
    };
  };

  test('is said by the policy of now, though the catalog is as it was', async () => {
    const { verdict, follow } = showing({ strategy: 'never' });
    expect(await verdict()).toMatchObject({ kind: 'allow' });
    follow({ strategy: 'never', servers: { bank: { default: 'deny' } } });
    expect(await verdict()).toMatchObject({ kind: 'deny' });
  });

  test('is said as it is while glass is broken, and after it', async () => {
    const breakGlass = { reason: 'Nobody can be reached.', until: '2026-06-01T12:00:00.000Z' };
    const { verdict, at } = showing({ rules: [{ id: 'pager', then: 'allow', breakGlass }] });
    expect(await verdict()).toMatchObject({
      kind: 'allow',
      rules: ['organisation/rules/pager (break glass)', 'organisation/default'],
    });
    at('2026-06-01T12:00:00.000Z');
    expect(await verdict()).toMatchObject({ kind: 'ask' });
  });
});

test('a message names the groups by which administrators are named, and never more than it can hold', async () => {
  const { changes, sent } = scene();
  const groups = [...Array.from({ length: 150 }, (_, index) => `team-${index}`), 'night'];
  await changes.send(asker({ id: 'tim', groups }), 'shop', { kind: 'refresh', body: {} });
  await changes.send(asker({ id: 'tim', groups: ['night', 'team-1'] }), 'shop', { kind: 'refresh', body: {} });
  expect(sent).toMatchObject([
    { by: { id: 'tim', groups: ['night'] } },
    { by: { id: 'tim', groups: ['night', 'team-1'] } },
  ]);
});

test.each<[string, boolean, boolean]>([
  ['in trust mode temporal', false, true],
  ['not in trust mode signed, where workers believe no catalog', true, false],
])('a read of a trusted server may be sent twice %s (INV-X1)', (_, isSigned, isRepeatable) => {
  const policy = { repeatable: 'trusted-reads' as const };
  const settings = { ...SETTINGS, policy, repeatable: { shop: ['list'] }, isSigned };
  // Sound: nothing is asked.
  const catalogs = new Catalogs({} as Countersign, settings);
  const read = { name: 'read', inputSchema: {}, annotations: { readOnlyHint: true } };
  expect(catalogs.isRepeatable('shop', read, true)).toBe(isRepeatable);
  // The operator's own word counts in both.
  expect(catalogs.isRepeatable('shop', { name: 'list', inputSchema: {} }, false)).toBe(true);
});

test('each tool counts for what is true of it', () => {
  const open = { enabled: true, requiresApproval: false, denied: false };
  const entries = [
    catalogEntry({ name: 'open', setting: toolSetting(open) }),
    catalogEntry({ name: 'asks', setting: toolSetting({ ...open, requiresApproval: true }) }),
    catalogEntry({ name: 'denied', setting: toolSetting({ ...open, requiresApproval: true, denied: true }) }),
    catalogEntry({ name: 'off', setting: toolSetting({ ...open, enabled: false, requiresApproval: true }) }),
    // A definition that nobody has looked at asks, whatever is set.
    catalogEntry({ name: 'changed', setting: toolSetting(open), definition: { hash: 'b'.repeat(64), refresh: 2 } }),
    catalogEntry({ name: 'gone', setting: toolSetting(open), status: 'missing' }),
  ];
  expect(countsOf(entries)).toEqual({ tools: 6, enabled: 5, asking: 2, denied: 1, changed: 1, missing: 1 });
});

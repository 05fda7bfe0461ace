/** A loosening that a second administrator must agree to (INV-G2, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import type { CatalogDecision, CatalogRules, ToolChange } from '../../../../contracts/schemas/catalog.ts';
import { agreed, type Loosening, opened } from '../../../../domain/catalog/pending.ts';
import type { Catalog } from '../../../../domain/catalog/state.ts';
import {
  ann,
  bob,
  catalogDecision,
  catalogEntry,
  catalogOf,
  catalogRules,
  connection,
  definition,
  planOf,
  refreshed,
  taken,
  toolSetting,
  withPolicies,
} from '../../../support/builders/catalog.ts';

const NOW = Date.UTC(2026, 0, 1);
const DAY_MS = 86_400_000;
const MOST_PENDING = 20;

const disabled = catalogEntry({ setting: toolSetting({ enabled: false }) });
const enable: ToolChange = { tool: 'write_file', enabled: true };

function asked(catalog: Catalog, over: Partial<Loosening> = {}, now = NOW) {
  const loosening = { by: ann, changes: [enable], ...over };
  return taken(opened(catalog, loosening, planOf(catalog, loosening.changes), now));
}

/** What somebody who was shown the only change that waits would say. */
function said(catalog: Catalog, over: Partial<CatalogDecision> = {}): CatalogDecision {
  const [pending] = catalog.pending;
  if (pending === undefined) throw new Error('nothing waits');
  return catalogDecision({ changeId: pending.changeId, digest: pending.digest, ...over });
}

const decided = (
  catalog: Catalog,
  over: Partial<CatalogDecision> = {},
  rules: CatalogRules = catalogRules(),
  now = NOW,
) => agreed(catalog, said(catalog, over), rules, now, () => true);

describe('a loosening that waits', () => {
  test('changes nothing yet, and waits for 24 hours under its own number', () => {
    const before = catalogOf([disabled]);
    const { catalog, facts, changeId } = asked(before);
    expect(changeId).toBe('change-1');
    const deadline = '2026-01-02T00:00:00.000Z';
    const digest = expect.stringMatching(/^[0-9a-f]{64}$/);
    expect(catalog).toEqual({
      ...before,
      changesOpened: 1,
      pending: [{ changeId, digest, by: ann, openedAt: '2026-01-01T00:00:00.000Z', deadline, changes: [enable] }],
    });
    expect(facts).toEqual([{ kind: 'catalog.change-opened', changeId, digest, by: ann, deadline }]);
    expect(asked(catalog).changeId).toBe('change-2');
  });

  test('INV-G2: every part of what it would change has a part in its digest', () => {
    const digestOf = (catalog: Catalog, over: Partial<Loosening> = {}): string =>
      asked(catalog, over).catalog.pending.at(-1)?.digest ?? '';
    const entries = [disabled, catalogEntry({ name: 'list', setting: toolSetting({ denied: true }) })];
    const base = catalogOf(entries);
    const drifted = { ...disabled, definition: { hash: definition('second'), refresh: 2 } };
    const digests = [
      digestOf(base),
      digestOf({ ...base, tenant: 'other' }),
      digestOf({ ...base, server: 'other' }),
      digestOf({ ...base, changesOpened: 1 }),
      digestOf({ ...base, connection: connection({ url: 'https://other.example/mcp' }) }),
      digestOf({ ...base, connection: connection({ credentials: 'vault' }) }),
      digestOf(base, { by: bob }),
      digestOf(base, { by: { ...ann, groups: [] } }),
      digestOf(base, { trusted: true }),
      digestOf(base, { trusted: false }),
      digestOf(base, { changes: [{ ...enable, deadlineSeconds: 60 }] }),
      digestOf(base, { changes: [{ ...enable, approvers: { ids: [], groups: [] } }] }),
      digestOf(base, { changes: [enable, { tool: 'list', denied: false }] }),
      digestOf(base, { changes: [{ tool: 'list', denied: false }] }),
      digestOf(catalogOf([{ ...disabled, setting: toolSetting({ enabled: false, requiresApproval: true }) }])),
      digestOf(catalogOf([drifted])),
      digestOf(catalogOf([drifted]), { changes: [{ ...enable, acknowledge: definition('second') }] }),
    ];
    expect(new Set(digests).size).toBe(digests.length);
    expect(digestOf(base)).toBe(digests[0]);
  });

  test('twenty may wait; those whose time is over make room, and are recorded as expired', () => {
    let catalog = catalogOf([disabled]);
    for (let count = 0; count < MOST_PENDING; count += 1) ({ catalog } = asked(catalog));
    expect(opened(catalog, { by: ann, changes: [enable] }, planOf(catalog, [enable]), NOW)).toMatchObject({
      kind: 'refuse',
      code: 'LIMIT_REACHED',
    });
    const later = asked(catalog, {}, NOW + DAY_MS);
    expect(later.catalog.pending.map(({ changeId }) => changeId)).toEqual(['change-21']);
    expect(later.facts).toHaveLength(MOST_PENDING + 1);
    expect(later.facts[0]).toEqual({ kind: 'catalog.change-closed', changeId: 'change-1', by: ann, status: 'expired' });
  });
});

describe('a second administrator who agrees', () => {
  test('makes the change, and both stand in the ledger', () => {
    const { catalog, facts } = taken(decided(asked(catalogOf([disabled])).catalog));
    expect(catalog).toMatchObject({ policyVersion: 2, pending: [], entries: [{ setting: toolSetting() }] });
    expect(facts).toEqual([
      { kind: 'catalog.change-closed', changeId: 'change-1', by: bob, status: 'approved' },
      {
        kind: 'catalog.policy',
        by: ann,
        countersignedBy: bob,
        policyVersion: 2,
        changes: [{ tool: 'write_file', before: toolSetting({ enabled: false }), after: toolSetting() }],
      },
    ]);
  });

  test('may make a server trusted', () => {
    const waiting = asked(catalogOf(), { changes: [], trusted: true }).catalog;
    expect(waiting.pending[0]).toMatchObject({ trusted: true });
    expect(waiting.connection?.trusted).toBe(false);
    const { catalog, facts } = taken(decided(waiting));
    expect(catalog.connection?.trusted).toBe(true);
    expect(facts[1]).toMatchObject({ kind: 'catalog.policy', trusted: true, countersignedBy: bob });
  });

  test('who rejects closes it, and nothing is changed', () => {
    const before = asked(catalogOf([disabled])).catalog;
    for (const by of [bob, ann]) {
      const { catalog, facts } = taken(decided(before, { by, verdict: 'reject' }));
      expect(catalog).toEqual({ ...before, pending: [] });
      expect(facts).toEqual([{ kind: 'catalog.change-closed', changeId: 'change-1', by, status: 'rejected' }]);
    }
  });
});

describe('an agreement that does not count', () => {
  const waiting = asked(catalogOf([disabled])).catalog;

  test.each<[string, string, Partial<CatalogDecision>, CatalogRules, number]>([
    ['to a change that does not wait', 'REQUEST_NOT_OPEN', { changeId: 'change-2' }, catalogRules(), NOW],
    ['to a change named as nothing is', 'REQUEST_NOT_OPEN', { changeId: 'constructor' }, catalogRules(), NOW],
    ['INV-G2: to another change than was shown', 'DIGEST_MISMATCH', { digest: definition('x') }, catalogRules(), NOW],
    ['at the deadline', 'DECISION_EXPIRED', {}, catalogRules(), NOW + DAY_MS],
    ['of whoever asked', 'APPROVER_NOT_ENTITLED', { by: ann }, catalogRules(), NOW],
    [
      'of whoever asked, with other groups',
      'APPROVER_NOT_ENTITLED',
      { by: { id: 'ann', groups: [] } },
      catalogRules(),
      NOW,
    ],
    ['of somebody who is not named', 'CATALOG_FORBIDDEN', { by: { id: 'cy', groups: [] } }, catalogRules(), NOW],
    [
      'of somebody who may only tighten',
      'CATALOG_FORBIDDEN',
      {},
      catalogRules({ administrators: [{ ids: ['ann', 'bob'], groups: [], may: ['connect', 'tighten'] }] }),
      NOW,
    ],
    ['INV-G4: where nobody is named', 'CATALOG_FORBIDDEN', {}, catalogRules({ administrators: [] }), NOW],
  ])('%s is refused with %s', (_what, code, over, rules, now) => {
    expect(decided(waiting, over, rules, now)).toMatchObject({
      kind: 'refuse',
      code,
      facts: { changeId: over.changeId ?? 'change-1' },
    });
  });

  test('a moment before the deadline counts', () => {
    expect(taken(decided(waiting, {}, catalogRules(), NOW + DAY_MS - 1)).catalog.policyVersion).toBe(2);
  });

  const outdated = (catalog: Catalog, rules: CatalogRules = catalogRules()): void => {
    const answer = taken(agreed(catalog, said(waiting), rules, NOW, () => true));
    expect(answer.catalog).toEqual({ ...catalog, pending: [] });
    expect(answer.facts).toEqual([
      { kind: 'catalog.change-closed', changeId: 'change-1', by: bob, status: 'outdated' },
    ]);
  };

  test('INV-G2: to what is no longer what was shown closes it as outdated, and nothing is changed', () => {
    outdated(withPolicies(waiting, { tool: 'write_file', requiresApproval: true }));
    outdated(withPolicies(waiting, enable));
    outdated({ ...waiting, connection: connection({ url: 'https://other.example/mcp' }) });
    outdated({ ...waiting, entries: [] });
  });

  test('H-7: a definition that changed since it was shown makes it outdated', () => {
    outdated(refreshed(waiting, 2, { write_file: 'second' }));
    expect(taken(decided(refreshed(waiting, 2, { write_file: 'first' }))).catalog.policyVersion).toBe(2);
  });

  test('INV-G4: of two administrators both must have the right when it is made', () => {
    outdated(waiting, catalogRules({ administrators: [{ ids: ['bob'], groups: [], may: ['loosen'] }] }));
    const mixed = asked(catalogOf([disabled]), { changes: [{ ...enable, denied: true }] }).catalog;
    const rules = catalogRules({
      administrators: [
        { ids: ['ann', 'bob'], groups: [], may: ['loosen'] },
        { ids: ['bob'], groups: [], may: ['tighten'] },
      ],
    });
    expect(taken(decided(mixed, {}, rules)).facts).toEqual([expect.objectContaining({ status: 'outdated' })]);
  });

  test('INV-G4: trust is given only if whoever asked for it may still connect; executions of before took no notice', () => {
    const trust = asked(catalogOf(), { changes: [], trusted: true }).catalog;
    const may = (...rights: readonly ('connect' | 'loosen')[]): CatalogRules =>
      catalogRules({
        administrators: [
          { ids: ['ann'], groups: [], may: [...rights] },
          { ids: ['bob'], groups: [], may: ['loosen'] },
        ],
      });
    const withRights = (rules: CatalogRules, isStrict: () => boolean) =>
      taken(agreed(trust, said(trust), rules, NOW, isStrict)).catalog;
    expect(withRights(may('loosen'), () => true)).toEqual({ ...trust, pending: [] });
    expect(withRights(may('loosen'), () => false).connection?.trusted).toBe(true);
    const notAsked = (): never => {
      throw new Error('asked although the right is there');
    };
    expect(withRights(may('loosen', 'connect'), notAsked).connection?.trusted).toBe(true);
  });
});

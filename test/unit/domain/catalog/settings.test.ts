/** Changes of what operators say of tools: as a whole, on what was shown, each with its entry in the ledger (S3.2, S2.3). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { CatalogEntry, CatalogRules, ToolChange } from '../../../../contracts/schemas/catalog.ts';
import { checkVersion, missingRight, planned, policiesSet, rightsOf } from '../../../../domain/catalog/settings.ts';
import { entryOf } from '../../../../domain/catalog/state.ts';
import { catalogEntries, ODD_NAMES, ruleChange } from '../../../support/builders/catalog-arbitraries.ts';
import {
  ann,
  bob,
  catalogEntry,
  catalogOf,
  catalogRules,
  connection,
  definition,
  planOf,
  refreshed,
  toolSetting,
  withPolicies,
} from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

const changes = fc.array(ruleChange, { minLength: 1, maxLength: 4 });

test('the version that was shown: S2.3: is the one that is changed; another is a conflict that says both', () => {
  expect(checkVersion(catalogOf(), 1)).toBeUndefined();
  for (const expected of [0, 2])
    expect(checkVersion(catalogOf(), expected)).toMatchObject({
      kind: 'refuse',
      code: 'CATALOG_VERSION_CONFLICT',
      facts: { expected, policyVersion: 1 },
    });
});

describe('a plan', () => {
  const needs = (change: Omit<ToolChange, 'tool'>, over: Parameters<typeof catalogEntry>[0] = {}): string[] =>
    [...planOf(catalogOf([catalogEntry(over)]), [{ tool: 'write_file', ...change }]).needs].toSorted();

  test('needs the right of each direction that its changes take', () => {
    expect(needs({ enabled: false })).toEqual(['tighten']);
    expect(needs({ requiresApproval: false }, { setting: toolSetting({ requiresApproval: true }) })).toEqual([
      'loosen',
    ]);
    expect(needs({ enabled: true, denied: true }, { setting: toolSetting({ enabled: false }) })).toEqual([
      'loosen',
      'tighten',
    ]);
  });

  test('H-7: to take notice of a drifted definition is a loosening; of one that is acknowledged already, nothing', () => {
    const drifted = { definition: { hash: definition('second'), refresh: 2 } };
    expect(needs({ acknowledge: definition('second') }, drifted)).toEqual(['loosen']);
    expect(needs({ acknowledge: definition('first') })).toEqual([]);
    const { acknowledged: _, ...unseen } = catalogEntry();
    const plan = planOf(catalogOf([unseen]), [{ tool: 'write_file', acknowledge: definition('first') }]);
    expect([...plan.needs]).toEqual(['loosen']);
  });

  test('what changes nothing needs no right, and is no edit', () => {
    const plan = planOf(catalogOf([catalogEntry()]), [{ tool: 'write_file', enabled: true }]);
    expect(plan).toEqual({ kind: 'plan', edits: [], needs: new Set() });
  });

  test('H-7: another definition than the tool has is a conflict: nobody acknowledges what was not shown', () => {
    const catalog = catalogOf([catalogEntry({ definition: { hash: definition('third'), refresh: 3 } })]);
    for (const acknowledge of [definition('first'), definition('second')])
      expect(planned(catalog, [{ tool: 'write_file', acknowledge }])).toMatchObject({
        kind: 'refuse',
        code: 'CATALOG_VERSION_CONFLICT',
        facts: { path: 'changes[0].acknowledge' },
      });
  });

  test('a tool that stands twice is refused: which of the two is meant?', () => {
    const batch = [
      { tool: 'write_file', enabled: true },
      { tool: 'write_file', enabled: false },
    ];
    expect(planned(catalogOf([catalogEntry()]), batch)).toMatchObject({
      kind: 'refuse',
      code: 'CATALOG_INVALID',
      facts: { path: 'changes[1]' },
    });
  });

  test('a tool that is not there is refused, with near names where there are any', () => {
    const catalog = catalogOf([catalogEntry()]);
    expect(planned(catalog, [{ tool: 'write_fil', enabled: false }])).toMatchObject({
      kind: 'refuse',
      code: 'TOOL_UNKNOWN',
      message: 'changes[0].tool: files has no tool write_fil. Did you mean write_file?',
      facts: { path: 'changes[0].tool' },
    });
    expect(planned(catalog, [{ tool: 'zzz', enabled: false }])).toMatchObject({
      message: 'changes[0].tool: files has no tool zzz. Refresh the catalog where the server has it.',
    });
  });

  test('names are shown as the text of a stranger: nothing invisible', () => {
    const odd = `list${'\u202e'}files`;
    const catalog = catalogOf([catalogEntry({ name: odd })]);
    const refusals = [
      planned(catalog, [{ tool: `${odd}s`, enabled: false }]),
      planned(catalog, [{ tool: odd, acknowledge: definition('second') }]),
    ];
    for (const refusal of refusals) expect(JSON.stringify(refusal)).not.toContain('\u202e');
  });

  test.each(ODD_NAMES)('S3.5: a tool named %s is known by that name and no other', (name) => {
    const others = ODD_NAMES.filter((other) => other !== name).map((other) => catalogEntry({ name: other }));
    const change = { tool: name, denied: true };
    expect(planned(catalogOf(others), [change])).toMatchObject({ kind: 'refuse', code: 'TOOL_UNKNOWN' });
    const after = withPolicies(catalogOf([...others, catalogEntry({ name })]), change);
    expect(after.entries.filter(({ setting }) => setting.denied).map((entry) => entry.name)).toEqual([name]);
  });

  test('a batch is all or nothing: one change that cannot be made refuses them all', () => {
    forAll(catalogEntries, changes, (entries, batch) => {
      const catalog = catalogOf(entries);
      const plan = planned(catalog, batch);
      const names = batch.map(({ tool }) => tool);
      const isPossible =
        new Set(names).size === names.length && names.every((name) => entryOf(catalog, name) !== undefined);
      expect(plan.kind).toBe(isPossible ? 'plan' : 'refuse');
    });
  });
});

describe('a change that is made', () => {
  test('is one version and one fact: from what to what, and by whom', () => {
    const catalog = catalogOf([catalogEntry(), catalogEntry({ name: 'list' })]);
    const plan = planOf(catalog, [
      { tool: 'write_file', denied: true },
      { tool: 'list', enabled: false },
    ]);
    const { catalog: after, facts } = policiesSet(catalog, plan, ann);
    expect(after.policyVersion).toBe(2);
    expect(facts).toEqual([
      {
        kind: 'catalog.policy',
        by: ann,
        policyVersion: 2,
        changes: [
          { tool: 'write_file', before: toolSetting(), after: toolSetting({ denied: true }) },
          { tool: 'list', before: toolSetting(), after: toolSetting({ enabled: false }) },
        ],
      },
    ]);
  });

  test('changes the tools that it names and no other, and nothing that the server said', () => {
    forAll(catalogEntries, changes, (entries, batch) => {
      const catalog = catalogOf(entries);
      const plan = planned(catalog, batch);
      fc.pre(plan.kind === 'plan');
      const { catalog: after } = policiesSet(catalog, plan, ann);
      const named = new Set(batch.map(({ tool }) => tool));
      const unsaid = ({ setting: _, spokenOf: __, ...rest }: CatalogEntry) => rest;
      expect(after.entries.map(unsaid)).toEqual(catalog.entries.map(unsaid));
      expect(after.entries.filter(({ name }) => !named.has(name))).toEqual(
        catalog.entries.filter(({ name }) => !named.has(name)),
      );
    });
  });

  test('that changes nothing is no version and no fact', () => {
    const catalog = catalogOf([catalogEntry()]);
    const nothing = planOf(catalog, [{ tool: 'write_file', enabled: true }]);
    expect(policiesSet(catalog, nothing, ann)).toEqual({ catalog, facts: [] });
    expect(policiesSet(catalog, nothing, ann, { trusted: false })).toEqual({ catalog, facts: [] });
  });

  test('says who agreed, where somebody had to', () => {
    const catalog = catalogOf([catalogEntry()]);
    const plan = planOf(catalog, [{ tool: 'write_file', denied: true }]);
    const [fact] = policiesSet(catalog, plan, ann, { agreed: bob }).facts;
    expect(fact).toMatchObject({ by: ann, countersignedBy: bob });
    expect(fact).not.toHaveProperty('trusted');
  });

  test('may trust the server, which is a change of its own; without a connection there is none to trust', () => {
    const { catalog, facts } = policiesSet(catalogOf(), { edits: [] }, ann, { trusted: true });
    expect(catalog).toMatchObject({ policyVersion: 2, connection: connection({ trusted: true }) });
    expect(facts).toEqual([{ kind: 'catalog.policy', by: ann, policyVersion: 2, trusted: true, changes: [] }]);
    const { connection: _, ...unconnected } = catalogOf();
    expect(policiesSet(unconnected, { edits: [] }, ann, { trusted: true })).toEqual({
      catalog: unconnected,
      facts: [],
    });
  });

  test('H-7: acknowledges what was shown, and not what has come since', () => {
    const shown = refreshed(refreshed(catalogOf(), 1, { list: 'first' }), 2, { list: 'second' });
    const plan = planOf(shown, [{ tool: 'list', acknowledge: definition('second') }]);
    expect(policiesSet(shown, plan, ann).catalog.entries[0]?.acknowledged).toEqual({
      hash: definition('second'),
      refresh: 2,
    });
    const since = refreshed(shown, 3, { list: 'third' });
    const { catalog, facts } = policiesSet(since, plan, ann);
    expect(catalog.entries[0]).toMatchObject({
      definition: { hash: definition('third') },
      acknowledged: { hash: definition('second') },
    });
    expect(facts).toEqual([
      expect.objectContaining({ changes: [expect.objectContaining({ acknowledged: definition('second') })] }),
    ]);
  });
});

/** Who may change a catalog: nobody, where nobody is named (INV-G4). */
describe('who may change settings', () => {
  const right = fc.constantFrom('connect', 'loosen', 'tighten');
  const name: fc.Arbitrary<string> = fc.constantFrom('ann', 'bob', 'ops', 'constructor');
  const administrators: fc.Arbitrary<CatalogRules['administrators']> = fc.array(
    fc.record({
      ids: fc.uniqueArray(name, { maxLength: 2 }),
      groups: fc.uniqueArray(name, { maxLength: 2 }),
      may: fc.uniqueArray(right, { minLength: 1 }),
    }),
    { maxLength: 4 },
  );
  const who = fc.record({ id: name, groups: fc.uniqueArray(name, { maxLength: 3 }) });

  describe('rights', () => {
    test('INV-G4: where nobody is named, nobody may', () => {
      forAll(who, (by) => {
        expect(rightsOf(catalogRules({ administrators: [] }), by).size).toBe(0);
        const nobody = [{ ids: [], groups: [], may: ['connect', 'loosen', 'tighten'] as const }];
        const rules = catalogRules({ administrators: nobody.map((each) => ({ ...each, may: [...each.may] })) });
        expect(rightsOf(rules, by).size).toBe(0);
        for (const needed of ['connect', 'loosen', 'tighten'] as const)
          expect(missingRight(rules, by, [needed])).toBe(needed);
      });
    });

    test('come by id and by group, and add up', () => {
      const rules = catalogRules({
        administrators: [
          { ids: ['ann'], groups: [], may: ['tighten'] },
          { ids: [], groups: ['ops', 'sec'], may: ['connect', 'tighten'] },
          { ids: ['bob'], groups: [], may: ['loosen'] },
        ],
      });
      expect([...rightsOf(rules, ann)].toSorted()).toEqual(['connect', 'tighten']);
      expect([...rightsOf(rules, bob)]).toEqual(['loosen']);
      expect([...rightsOf(rules, { id: 'ops', groups: ['ann'] })]).toEqual([]);
    });

    test('loosening and tightening are rights apart, and the first that is missing is named', () => {
      const rules = catalogRules({ administrators: [{ ids: ['ann'], groups: [], may: ['tighten'] }] });
      expect(missingRight(rules, ann, ['tighten'])).toBeUndefined();
      expect(missingRight(rules, ann, new Set(['tighten', 'loosen'] as const))).toBe('loosen');
      expect(missingRight(rules, ann, ['connect', 'loosen'])).toBe('connect');
      expect(missingRight(rules, ann, [])).toBeUndefined();
    });

    test('nobody has a right that no entry which names them gives', () => {
      forAll(administrators, who, (named, by) => {
        for (const has of rightsOf(catalogRules({ administrators: named }), by))
          expect(
            named.some(
              ({ ids, groups, may }) =>
                may.includes(has) && (ids.includes(by.id) || groups.some((group) => by.groups.includes(group))),
            ),
          ).toBe(true);
      });
    });
  });
});

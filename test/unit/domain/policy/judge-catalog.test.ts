/** What a catalog makes of the verdict of the other layers: the strictest wins, it never loosens (S3.3, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { effectiveVerdicts, needsAnnotations } from '../../../../client/catalog/list.ts';
import type { CatalogEntry, CatalogSnapshot, ToolChange, ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { catalogSays, type CatalogView } from '../../../../domain/catalog/layer.ts';
import { changedSetting, directionsOf } from '../../../../domain/catalog/settings.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { type CatalogSay, judge, type PolicyLayers } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import {
  toolSetting as anySetting,
  catalogEntries,
  catalogTool,
  catalogView,
  ruleChange,
  word,
} from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, catalogOf, connection, definition, toolSetting } from '../../../support/builders/catalog.ts';
import { judgedTool } from '../../../support/builders/policy.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const DAY = 86_400;
const ops = { ids: [], groups: ['ops'] };
const bob = { ids: ['bob'], groups: [] };

function says(setting: Partial<ToolSetting>): CatalogSay {
  const entries = [catalogEntry({ setting: toolSetting(setting) })];
  return catalogSays(
    { server: 'files', status: 'connected', newTools: 'ask', entries },
    'write_file',
    definition('first'),
  );
}

describe('the catalog among the layers', () => {
  const somebody = fc.record({ id: fc.constantFrom('ann', 'bob', 'zoe'), groups: fc.subarray(['ops', 'sec']) });
  const run = fc.option(policy, { nil: undefined });
  const asked = { tool: catalogTool, word };
  const verdicts = (
    layers: PolicyLayers,
    catalog: CatalogView,
    { tool, word: seen }: { tool: string; word: string },
  ) => {
    const judged = judgedTool({ tool, server: catalog.server });
    const say = catalogSays(catalog, tool, definition(seen));
    return { say, alone: judge(layers, judged, 'ann'), both: judge({ ...layers, catalog: say }, judged, 'ann') };
  };

  test('S3.3: it never loosens: the strictest verdict wins, and time is never gained', () => {
    fc.assert(
      fc.property(policy, run, catalogView, fc.record(asked), (organisation, ofRun, catalog, call) => {
        const { say, alone, both } = verdicts({ organisation, run: ofRun }, catalog, call);
        const wanted = { nothing: 0, ask: 1, deny: 2 }[say.kind];
        expect(STRICTNESS[both.kind]).toBe(Math.max(STRICTNESS[alone.kind], wanted));
        if (alone.kind === 'ask' && both.kind === 'ask')
          expect(both.deadlineSeconds).toBeLessThanOrEqual(alone.deadlineSeconds);
      }),
      { numRuns: 1_000 },
    );
  });

  test('S3.3: it entitles nobody whom approvers named by another layer leave out', () => {
    fc.assert(
      fc.property(policy, run, catalogView, fc.record(asked), somebody, (organisation, ofRun, catalog, call, who) => {
        const { alone, both } = verdicts({ organisation, run: ofRun }, catalog, call);
        if (
          alone.kind !== 'ask' ||
          both.kind !== 'ask' ||
          alone.approvers.allOf.some(({ layer }) => layer === 'default')
        )
          return;
        if (isMet(both.approvers, [who])) expect(isMet(alone.approvers, [who])).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  const never: Policy = { strategy: 'never' };
  const judged = (organisation: Policy, catalog: CatalogSay, ofRun?: Policy) =>
    judge({ organisation, run: ofRun, catalog }, judgedTool(), 'ann');

  test('it asks where the organisation allows: its approvers, or the initiator where it names none', () => {
    const rule = 'catalog/files/tools/write_file';
    expect(judged(never, says({ requiresApproval: true }))).toEqual({
      kind: 'ask',
      rules: [rule],
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      deadlineSeconds: DAY,
    });
    expect(judged(never, says({ requiresApproval: true, approvers: ops, deadlineSeconds: 60 }))).toEqual({
      kind: 'ask',
      rules: [rule],
      approvers: { allOf: [{ layer: 'catalog', ...ops }] },
      deadlineSeconds: 60,
    });
  });

  test('approvers of all layers must be met, also those of a catalog that asks for nothing itself', () => {
    const verdict = judged({ approvers: bob }, says({ approvers: ops, deadlineSeconds: 60 }), { strategy: 'always' });
    expect(verdict).toMatchObject({
      kind: 'ask',
      rules: ['organisation/default', 'run/strategy/always'],
      approvers: {
        allOf: [
          { layer: 'organisation', ...bob },
          { layer: 'catalog', ...ops },
        ],
      },
      deadlineSeconds: 60,
    });
  });

  test('F-3: where only the catalog asks, its deadline counts as it stands; to another layer it adds no time', () => {
    const week = says({ requiresApproval: true, deadlineSeconds: 7 * DAY });
    expect(judged(never, week)).toMatchObject({ deadlineSeconds: 7 * DAY });
    expect(judged(never, week, { deadlineSeconds: 30 })).toMatchObject({ deadlineSeconds: 30 });
    expect(judged(never, week, { strategy: 'always' })).toMatchObject({ deadlineSeconds: DAY });
    expect(judged({ deadlineSeconds: 60 }, week)).toMatchObject({ deadlineSeconds: 60 });
    expect(judged({ deadlineSeconds: 30 * DAY }, week)).toMatchObject({ deadlineSeconds: 7 * DAY });
    expect(
      judged(never, says({ requiresApproval: true }), { strategy: 'always', deadlineSeconds: 7 * DAY }),
    ).toMatchObject({ deadlineSeconds: 7 * DAY });
  });

  test('INV-G4: an empty list of the catalog entitles nobody', () => {
    const verdict = judged(never, says({ requiresApproval: true, approvers: { ids: [], groups: [] } }));
    expect(verdict.kind === 'ask' && isMet(verdict.approvers, [{ id: 'ann', groups: [] }])).toBe(false);
  });

  test('where it has nothing to say, the others decide', () => {
    expect(judged(never, says({ approvers: ops }))).toEqual({ kind: 'allow', rules: ['organisation/strategy/never'] });
  });

  test('what is disabled is said as such, also where policy denies', () => {
    const deny: Policy = { servers: { files: { default: 'deny' } } };
    expect(judged(deny, says({ enabled: false }))).toEqual({
      kind: 'deny',
      rules: ['catalog/files/tools/write_file/disabled'],
      code: 'TOOL_DISABLED',
      message: 'files/write_file is disabled in the catalog.',
    });
  });
});

/** One tool's policy: what a change makes of it, and which right that needs (INV-G4). */
describe('settings of a tool', () => {
  const changed = (before: ToolSetting, change: Omit<ToolChange, 'tool'>): ToolSetting =>
    changedSetting(before, { tool: 'write_file', ...change });

  describe('a change of a setting', () => {
    test('what is absent stays as it is', () => {
      fc.assert(fc.property(anySetting, (before) => expect(changed(before, {})).toEqual(before)));
    });

    test('what is stated takes its place, and null takes a rule away', () => {
      const before = toolSetting({ approvers: ops, deadlineSeconds: 60 });
      expect(changed(before, { enabled: false, requiresApproval: true, denied: true })).toEqual(
        toolSetting({ enabled: false, requiresApproval: true, denied: true, approvers: ops, deadlineSeconds: 60 }),
      );
      expect(changed(before, { approvers: { ids: ['bob'], groups: [] }, deadlineSeconds: 30 })).toEqual(
        toolSetting({ approvers: { ids: ['bob'], groups: [] }, deadlineSeconds: 30 }),
      );
      expect(changed(before, { approvers: null, deadlineSeconds: null })).toEqual(toolSetting());
    });

    test('made twice it is the same as made once', () => {
      fc.assert(
        fc.property(anySetting, ruleChange, (before, change) => {
          const once = changedSetting(before, change);
          expect(changedSetting(once, change)).toEqual(once);
          expect([...directionsOf(once, changedSetting(once, change))]).toEqual([]);
        }),
      );
    });
  });

  describe('the direction of a change', () => {
    const directions = (before: Partial<ToolSetting>, after: Partial<ToolSetting>): string[] =>
      [...directionsOf(toolSetting(before), toolSetting(after))].toSorted();
    const list = (...ids: string[]) => ({ approvers: { ids, groups: [] } });

    test.each<[string, Partial<ToolSetting>, Partial<ToolSetting>]>([
      ['disabling', {}, { enabled: false }],
      ['asking', {}, { requiresApproval: true }],
      ['denying', {}, { denied: true }],
      ['taking somebody off the list', list('ann', 'bob'), list('ann')],
      ['taking a group off the list', { approvers: { ids: ['ann'], groups: ['ops'] } }, list('ann')],
      ['taking everybody off the list', list('ann'), list()],
      ['less time', { deadlineSeconds: 60 }, { deadlineSeconds: 59 }],
      ['a time within the 24 hours that silence means', {}, { deadlineSeconds: DAY }],
    ])('%s tightens, and taking that back loosens', (_what, before, after) => {
      expect(directions(before, after)).toEqual(['tightens']);
      expect(directions(after, before)).toEqual(['loosens']);
    });

    test.each<[string, Partial<ToolSetting>, Partial<ToolSetting>]>([
      ['somebody else in the place of one', list('ann'), list('bob')],
      ['a group in the place of a person', list('ann'), { approvers: ops }],
      // Where nobody is named the initiator decides: a list may let in somebody else.
      ['approvers where nobody was named', {}, { approvers: ops }],
      ['nobody named in the place of approvers', { approvers: ops }, {}],
      // Where only the catalog asks, silence gives 24 hours.
      ['more time than silence gives', {}, { deadlineSeconds: DAY + 1 }],
      ['silence in the place of a time, however long', { deadlineSeconds: 7 * DAY }, {}],
    ])('INV-G4: %s is not surely stricter, so it loosens', (_what, before, after) => {
      expect(directions(before, after)).toEqual(['loosens']);
    });

    test('both, where one part does this and another that', () => {
      expect(directions({ enabled: false }, { requiresApproval: true })).toEqual(['loosens', 'tightens']);
    });

    test('none, where nothing changes: the same people in another order are the same people', () => {
      expect(directions(list('ann', 'bob'), list('bob', 'ann'))).toEqual([]);
      fc.assert(fc.property(anySetting, (setting) => expect(directionsOf(setting, { ...setting }).size).toBe(0)));
    });

    const somebody = fc.record({
      id: fc.constantFrom('ann', 'bob', 'cy', 'zoe'),
      groups: fc.subarray(['ann', 'ops', 'sec']),
    });

    test('INV-G4: what does not say that it loosens never lets more pass, gives more time, or lets in somebody new', () => {
      fc.assert(
        fc.property(
          anySetting,
          ruleChange,
          policy,
          policy,
          somebody,
          fc.boolean(),
          (before, change, organisation, run, who, known) => {
            const after = changedSetting(before, change);
            fc.pre(!directionsOf(before, after).has('loosens'));
            const verdict = (setting: ToolSetting) => {
              const entries = [catalogEntry({ setting })];
              const view = { server: 'files', status: 'connected', newTools: 'strategy', entries } as const;
              const catalog = catalogSays(view, 'write_file', definition(known ? 'first' : 'second'));
              return judge({ organisation, run, catalog }, judgedTool(), 'initiator');
            };
            const [was, is] = [verdict(before), verdict(after)];
            expect(STRICTNESS[is.kind]).toBeGreaterThanOrEqual(STRICTNESS[was.kind]);
            if (was.kind !== 'ask' || is.kind !== 'ask') return;
            expect(is.deadlineSeconds).toBeLessThanOrEqual(was.deadlineSeconds);
            // Named approvers stand in for the initiator, who decides only where nobody is named (docs/adr/0018).
            if (was.approvers.allOf.every(({ layer }) => layer !== 'default') && isMet(is.approvers, [who]))
              expect(isMet(was.approvers, [who])).toBe(true);
          },
        ),
        { numRuns: 500 },
      );
    });

    test('INV-G4: every change that lets more pass says that it loosens, alone or with others', () => {
      fc.assert(
        fc.property(anySetting, anySetting, (before, after) => {
          const loosens =
            (!before.enabled && after.enabled) ||
            (before.denied && !after.denied) ||
            (before.requiresApproval && !after.requiresApproval) ||
            (before.approvers !== undefined && after.approvers === undefined);
          if (loosens) expect(directionsOf(before, after).has('loosens')).toBe(true);
        }),
      );
    });
  });
});

/** What is shown of a tool is what the judge says of its calls (S3.3). */
describe('the effective verdict', () => {
  function snapshotOf(entries: readonly CatalogEntry[], over: Partial<CatalogSnapshot> = {}): CatalogSnapshot {
    const { answered: _, changesOpened: __, ...rest } = catalogOf(entries);
    // Sound: a catalog is what a snapshot shows, but for the ledger.
    return { ...rest, ledgerLength: 0, ledgerHead: 'a'.repeat(64), ...over } as CatalogSnapshot;
  }

  const readOnly = new Map([
    ['write_file', { current: { name: 'write_file', inputSchema: {}, annotations: { readOnlyHint: true } } }],
  ]);
  const trusted = { connection: connection({ trusted: true }) };

  test('it is the verdict of a run without a policy of its own', () => {
    fc.assert(
      fc.property(catalogEntries, policy, fc.boolean(), (entries, organisation, trusts) => {
        const snapshot = snapshotOf(entries, { connection: connection({ trusted: trusts }) });
        const verdicts = effectiveVerdicts(snapshot, new Map(), { policy: organisation, configuredTrust: undefined });
        for (const {
          name,
          definition: { hash },
        } of entries) {
          const layers = { organisation, run: undefined, catalog: catalogSays(snapshot, name, hash) };
          const tool = { server: 'files', tool: name, annotations: undefined, serverTrusted: trusts };
          const { kind, rules } = judge(layers, tool, 'ann');
          expect(verdicts.get(name)).toMatchObject({ kind, rules });
        }
      }),
    );
  });

  describe('who decides', () => {
    test('whoever starts the run, where nobody is named', () => {
      const verdict = effectiveVerdicts(snapshotOf([catalogEntry()]), new Map(), {
        policy: {},
        configuredTrust: undefined,
      }).get('write_file');
      expect(verdict).toEqual({ kind: 'ask', rules: ['organisation/default'], deadlineSeconds: 86_400 });
    });

    test('those whom the layers name', () => {
      const setting = toolSetting({ requiresApproval: true, approvers: { ids: ['eve'], groups: [] } });
      const surroundings = { policy: { approvers: { ids: [], groups: ['ops'] } }, configuredTrust: undefined };
      expect(
        effectiveVerdicts(snapshotOf([catalogEntry({ setting })]), new Map(), surroundings).get('write_file'),
      ).toMatchObject({
        kind: 'ask',
        approvers: {
          allOf: [
            { layer: 'organisation', groups: ['ops'] },
            { layer: 'catalog', ids: ['eve'] },
          ],
        },
      });
    });
  });

  describe("a server's annotations", () => {
    const annotations = { policy: { strategy: 'annotations' as const }, configuredTrust: undefined };

    test('count where catalog and configuration both trust it', () => {
      const trusting = snapshotOf([catalogEntry()], trusted);
      expect(effectiveVerdicts(trusting, readOnly, annotations).get('write_file')?.kind).toBe('allow');
      expect(
        effectiveVerdicts(trusting, readOnly, { ...annotations, configuredTrust: true }).get('write_file')?.kind,
      ).toBe('allow');
      expect(
        effectiveVerdicts(trusting, readOnly, { ...annotations, configuredTrust: false }).get('write_file')?.kind,
      ).toBe('ask');
      expect(
        effectiveVerdicts(snapshotOf([catalogEntry()]), readOnly, { ...annotations, configuredTrust: true }).get(
          'write_file',
        )?.kind,
      ).toBe('ask');
    });

    test('need be read only where they could count', () => {
      expect(needsAnnotations(snapshotOf([], trusted), annotations)).toBe(true);
      expect(needsAnnotations(snapshotOf([]), annotations)).toBe(false);
      expect(needsAnnotations(snapshotOf([], trusted), { ...annotations, policy: {} })).toBe(false);
    });
  });

  test('a tool that has changed asks, and one of a disconnected server is denied', () => {
    const changed = catalogEntry({ definition: { hash: definition('second'), refresh: 2 } });
    const never = { policy: { strategy: 'never' as const }, configuredTrust: undefined };
    expect(effectiveVerdicts(snapshotOf([changed]), new Map(), never).get('write_file')).toMatchObject({
      kind: 'ask',
      rules: ['catalog/files/tools/write_file/drift'],
    });
    const gone = snapshotOf([catalogEntry()], { status: 'disconnected' });
    expect(effectiveVerdicts(gone, new Map(), never).get('write_file')).toMatchObject({
      kind: 'deny',
      code: 'TOOL_DISABLED',
    });
  });
});

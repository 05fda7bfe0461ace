/** What a catalog makes of the verdict of the other layers: the strictest wins, it never loosens (S3.3, INV-G4). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { effectiveVerdicts, needsAnnotations } from '../../../../client/catalog/list.ts';
import type { CatalogEntry, CatalogSnapshot, ToolChange, ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { catalogSays, type CatalogView } from '../../../../domain/catalog/layer.ts';
import { changedSetting, directionsOf } from '../../../../domain/catalog/settings.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { type CatalogSay, judge, type PolicyLayers, trustsServer } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import {
  catalogEntries,
  catalogTool,
  catalogView,
  ruleChange,
  toolSetting as anySetting,
  word,
} from '../../../support/builders/catalog-arbitraries.ts';
import {
  catalogEntry,
  catalogSnapshot,
  connection,
  definition,
  toolSetting,
} from '../../../support/builders/catalog.ts';
import { judgedTool } from '../../../support/builders/policy.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

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
    forMany({ numRuns: 1_000 }, policy, run, catalogView, fc.record(asked), (organisation, ofRun, catalog, call) => {
      const { say, alone, both } = verdicts({ organisation, run: ofRun }, catalog, call);
      const wanted = { nothing: 0, ask: 1, deny: 2 }[say.kind];
      expect(STRICTNESS[both.kind]).toBe(Math.max(STRICTNESS[alone.kind], wanted));
      if (alone.kind === 'ask' && both.kind === 'ask')
        expect(both.deadlineSeconds).toBeLessThanOrEqual(alone.deadlineSeconds);
    });
  });

  test('S3.3: it entitles nobody whom approvers named by another layer leave out', () => {
    forMany(
      { numRuns: 500 },
      policy,
      run,
      catalogView,
      fc.record(asked),
      somebody,
      (organisation, ofRun, catalog, call, who) => {
        const { alone, both } = verdicts({ organisation, run: ofRun }, catalog, call);
        if (
          alone.kind !== 'ask' ||
          both.kind !== 'ask' ||
          alone.approvers.allOf.some(({ layer }) => layer === 'default')
        )
          return;
        if (isMet(both.approvers, [who])) expect(isMet(alone.approvers, [who])).toBe(true);
      },
    );
  });

  const never: Policy = { strategy: 'never' };
  const judged = (organisation: Policy, catalog: CatalogSay, ofRun?: Policy) =>
    judge({ organisation, run: ofRun, catalog }, judgedTool(), 'ann');

  const rule = 'catalog/files/tools/write_file';
  const asking: Partial<ToolSetting> = { requiresApproval: true };
  const deny: Policy = { servers: { files: { default: 'deny' } } };
  const disabled = {
    kind: 'deny',
    rules: [`${rule}/disabled`],
    code: 'TOOL_DISABLED',
    message: 'files/write_file is disabled in the catalog.',
  };
  const asks = (approvers: object, over: object = {}) => ({
    kind: 'ask',
    rules: [rule],
    approvers,
    deadlineSeconds: DAY,
    ...over,
  });
  const limits = { approvers: ops, deadlineSeconds: 60 };
  const allowed = { kind: 'allow', rules: ['organisation/strategy/never'] };
  const initiator = { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] };
  const own = asks({ allOf: [{ layer: 'catalog', ...ops }] }, { deadlineSeconds: 60 });
  const both = {
    allOf: [
      { layer: 'organisation', ...bob },
      { layer: 'catalog', ...ops },
    ],
    together: true,
  };
  const all = asks(both, { rules: ['organisation/default', 'run/strategy/always'], deadlineSeconds: 60 });

  test.each<[string, Policy, Partial<ToolSetting>, Policy | undefined, object]>([
    ['it asks where the organisation allows: the initiator', never, asking, undefined, asks(initiator)],
    ['its own approvers, where it names any', never, { ...asking, ...limits }, undefined, own],
    ['approvers of all layers, also where it asks nothing', { approvers: bob }, limits, { strategy: 'always' }, all],
    ['where it has nothing to say, the others decide', never, { approvers: ops }, undefined, allowed],
    ['what is disabled is said as such, also where policy denies', deny, { enabled: false }, undefined, disabled],
  ])('%s', (_what, organisation, setting, ofRun, expected) => {
    expect(judged(organisation, says(setting), ofRun)).toEqual(expected);
  });

  const always = { strategy: 'always' } as const;
  const week = { ...asking, deadlineSeconds: 7 * DAY };
  test.each<[string, Policy, Partial<ToolSetting>, Policy | undefined, number]>([
    ['only the catalog asks, its deadline counts as it stands', never, week, undefined, 7 * DAY],
    ['a run says less, that', never, week, { deadlineSeconds: 30 }, 30],
    ['a run asks, its silence', never, week, { strategy: 'always' }, DAY],
    ['the organisation says less, that', { deadlineSeconds: 60 }, week, undefined, 60],
    ['the organisation says more, that of the catalog', { deadlineSeconds: 30 * DAY }, week, undefined, 7 * DAY],
    ['the catalog is silent, that of the run', never, asking, { ...always, deadlineSeconds: 7 * DAY }, 7 * DAY],
  ])('F-3: where %s', (_what, organisation, setting, ofRun, deadlineSeconds) => {
    expect(judged(organisation, says(setting), ofRun)).toMatchObject({ deadlineSeconds });
  });

  test('INV-G4: an empty list of the catalog entitles nobody', () => {
    const verdict = judged(never, says({ ...asking, approvers: { ids: [], groups: [] } }));
    expect(verdict.kind === 'ask' && isMet(verdict.approvers, [{ id: 'ann', groups: [] }])).toBe(false);
  });
});

/** One tool's policy: what a change makes of it, and which right that needs (INV-G4). */
describe('settings of a tool', () => {
  const changed = (before: ToolSetting, change: Omit<ToolChange, 'tool'>): ToolSetting =>
    changedSetting(before, { tool: 'write_file', ...change });

  describe('a change of a setting', () => {
    test('what is absent stays as it is', () => {
      forAll(anySetting, (before) => expect(changed(before, {})).toEqual(before));
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
      forAll(anySetting, ruleChange, (before, change) => {
        const once = changedSetting(before, change);
        expect(changedSetting(once, change)).toEqual(once);
        expect([...directionsOf(once, changedSetting(once, change))]).toEqual([]);
      });
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
      forAll(anySetting, (setting) => expect(directionsOf(setting, { ...setting }).size).toBe(0));
    });

    const somebody = fc.record({
      id: fc.constantFrom('ann', 'bob', 'cy', 'zoe'),
      groups: fc.subarray(['ann', 'ops', 'sec']),
    });

    test('INV-G4: what does not say that it loosens never lets more pass, gives more time, or lets in somebody new', () => {
      forMany(
        { numRuns: 500 },
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
      );
    });

    test('INV-G4: every change that lets more pass says that it loosens, alone or with others', () => {
      forAll(anySetting, anySetting, (before, after) => {
        const loosens =
          (!before.enabled && after.enabled) ||
          (before.denied && !after.denied) ||
          (before.requiresApproval && !after.requiresApproval) ||
          (before.approvers !== undefined && after.approvers === undefined);
        if (loosens) expect(directionsOf(before, after).has('loosens')).toBe(true);
      });
    });
  });
});

/** What is shown of a tool is what the judge says of its calls (S3.3). */
describe('the effective verdict', () => {
  const snapshotOf = (entries: readonly CatalogEntry[], over: Partial<CatalogSnapshot> = {}): CatalogSnapshot =>
    catalogSnapshot(entries, { connection: connection(), ...over });

  const readOnly = new Map([
    ['write_file', { current: { name: 'write_file', inputSchema: {}, annotations: { readOnlyHint: true } } }],
  ]);
  const trusted = { connection: connection({ trusted: true }) };

  test('it is the verdict of a run without a policy of its own', () => {
    forAll(catalogEntries, policy, fc.boolean(), (entries, organisation, trusts) => {
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
    });
  });

  type Surroundings = Parameters<typeof effectiveVerdicts>[2];
  const plain = { policy: {}, configuredTrust: undefined };
  const hints = { policy: { strategy: 'annotations' as const }, configuredTrust: undefined };
  const never = { policy: { strategy: 'never' as const }, configuredTrust: undefined };
  const setting = toolSetting({ requiresApproval: true, approvers: { ids: ['eve'], groups: [] } });
  const ofOps = { policy: { approvers: { ids: [], groups: ['ops'] } }, configuredTrust: undefined };
  const [trusting, distrusting] = [snapshotOf([catalogEntry()], trusted), snapshotOf([catalogEntry()])];
  const changed = catalogEntry({ definition: { hash: definition('second'), refresh: 2 } });
  const approvers = {
    allOf: [
      { layer: 'organisation', groups: ['ops'] },
      { layer: 'catalog', ids: ['eve'] },
    ],
  };
  const gone = snapshotOf([catalogEntry()], { status: 'disconnected' });
  const drift = 'catalog/files/tools/write_file/drift';

  test.each<[string, CatalogSnapshot, Surroundings, object]>([
    ['those whom the layers name decide', snapshotOf([catalogEntry({ setting })]), ofOps, { kind: 'ask', approvers }],
    ['hints count where the catalog trusts the server', trusting, hints, { kind: 'allow' }],
    ['and the configuration does', trusting, { ...hints, configuredTrust: true }, { kind: 'allow' }],
    ['not where the configuration does not', trusting, { ...hints, configuredTrust: false }, { kind: 'ask' }],
    ['in mode signed, of both', trusting, { ...hints, configuredTrust: true, isSigned: true }, { kind: 'allow' }],
    ['in mode signed, of no catalog alone', trusting, { ...hints, isSigned: true }, { kind: 'ask' }],
    ['not where the catalog does not', distrusting, { ...hints, configuredTrust: true }, { kind: 'ask' }],
    ['a tool that has changed asks', snapshotOf([changed]), never, { kind: 'ask', rules: [drift] }],
    ['one of a disconnected server is denied', gone, never, { kind: 'deny', code: 'TOOL_DISABLED' }],
  ])('%s', (_what, snapshot, surroundings, expected) => {
    const known = surroundings === never ? new Map() : readOnly;
    expect(effectiveVerdicts(snapshot, known, surroundings).get('write_file')).toMatchObject(expected);
  });

  test('whoever starts the run decides, where nobody is named', () => {
    const verdict = effectiveVerdicts(distrusting, new Map(), plain).get('write_file');
    expect(verdict).toEqual({ kind: 'ask', rules: ['organisation/default'], deadlineSeconds: 86_400 });
  });

  test('hints need be read only where they could count', () => {
    const needed = [needsAnnotations(snapshotOf([], trusted), hints), needsAnnotations(snapshotOf([]), hints)];
    expect([...needed, needsAnnotations(snapshotOf([], trusted), plain)]).toEqual([true, false, false]);
  });

  test('a rule may look at them, whatever the strategy', () => {
    const reads = { id: 'reads', match: { annotations: { readOnlyHint: true } }, then: 'deny' as const };
    const byRule = { policy: { strategy: 'never' as const, rules: [reads] }, configuredTrust: undefined };
    expect(needsAnnotations(snapshotOf([], trusted), byRule)).toBe(true);
    expect(needsAnnotations(snapshotOf([]), byRule)).toBe(false);
    expect(effectiveVerdicts(trusting, readOnly, byRule).get('write_file')).toMatchObject({ kind: 'deny' });
  });
});

test.each<[string, boolean | undefined, boolean | undefined, boolean]>([
  ['no catalog, and nobody has configured the server', undefined, undefined, false],
  ['no catalog, and the operator trusts it', undefined, true, true],
  ['no catalog, and the operator does not', undefined, false, false],
  ['the catalog alone, which trusts it', true, undefined, true],
  ['the catalog alone, which does not', false, undefined, false],
  ['both, and both trust it', true, true, true],
  ['both, and only the catalog does', true, false, false],
  ['both, and only the operator does', false, true, false],
])('INV-G4: whoever has a say must trust a server: %s', (_, trusted, configured, expected) => {
  expect(trustsServer(trusted === undefined ? undefined : { connection: { trusted } }, configured)).toBe(expected);
});

test('INV-G4: a catalog without a connection trusts nothing', () => {
  expect(trustsServer({}, true)).toBe(false);
});

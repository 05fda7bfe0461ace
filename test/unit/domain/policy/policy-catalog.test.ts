/** What a catalog makes of the verdict of the other layers: the strictest wins, it never loosens (S3.3, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { catalogSays, type CatalogView } from '../../../../domain/catalog/layer.ts';
import { type CatalogSay, judge, type PolicyLayers } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { catalogTool, catalogView, word } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, definition, toolSetting } from '../../../support/builders/catalog.ts';
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

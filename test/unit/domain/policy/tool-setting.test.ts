/** One tool's policy: what a change makes of it, and which right that needs (INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ToolChange, ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import { changedSetting, directionsOf } from '../../../../domain/catalog/settings.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { catalogSays } from '../../../../domain/catalog/layer.ts';
import { judge } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { ruleChange, toolSetting as anySetting } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, definition, toolSetting } from '../../../support/builders/catalog.ts';
import { judgedTool } from '../../../support/builders/policy.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const DAY = 86_400;
const ops = { ids: [], groups: ['ops'] };

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

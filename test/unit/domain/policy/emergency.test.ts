/** Halts and broken glass: what stands above what (INV-G1, INV-G4, E-2). */
import { describe, expect, test } from '@jest/globals';
import { type Holds, judge, type PolicyLayers } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool, policyLayers } from '../../../support/builders/policy.ts';
import { forMany } from '../../../support/for-all.ts';

const NOW = Date.parse('2026-06-01T00:00:00.000Z');
const breakGlass = { reason: 'The pager is down.', until: '2026-06-01T00:00:00.001Z' };
const GLASS = { id: 'glass', then: 'allow' as const, breakGlass };

function verdict(
  over: Partial<PolicyLayers>,
  { now = NOW, holds = 'unknown', tool = {} }: { now?: number; holds?: Holds; tool?: object } = {},
) {
  return judge(policyLayers(over), judgedTool(tool), 'ann', () => holds, now);
}

describe('a halt', () => {
  test('INV-G1: is above everything, also above what breaks glass', () => {
    forMany({ numRuns: 50 }, policy, policy, (organisation, run) => {
      const rules = [GLASS, ...(organisation.rules ?? [])];
      const halted = verdict({ organisation: { ...organisation, rules, halt: { reason: 'No.' } }, run });
      expect(halted).toMatchObject({ kind: 'deny', rules: ['organisation/halt'], code: 'ORGANISATION_HALTED' });
    });
  });

  test('of a server is about no other', () => {
    const organisation = { strategy: 'never' as const, halt: { reason: 'Mail is hacked.', servers: ['mail'] } };
    expect(verdict({ organisation }).kind).toBe('allow');
    expect(verdict({ organisation }, { tool: { server: 'mail' } })).toMatchObject({
      kind: 'deny',
      message: expect.stringMatching(
        /^All calls of mail are halted by the organisation, mail\/write_file too: Mail is hacked\./,
      ),
    });
  });

  test('says why, inert, and not to call again (INV-X2)', () => {
    expect(verdict({ organisation: { halt: { reason: 'Stop\u202E.' } } })).toMatchObject({
      message:
        'All tool calls are halted by the organisation, files/write_file too: Stop\\u{202e}. Call none of them again until the user says that they are not.',
    });
  });
});

describe('broken glass', () => {
  const organisation = { strategy: 'always' as const, rules: [GLASS] };

  test('E-2, INV-G4: lets pass arguments that could not be checked, and says so; without it people are asked', () => {
    const lax = { strategy: 'never' as const };
    const tool = { unchecked: 'takes too long' };
    expect(verdict({ organisation: lax }, { tool })).toMatchObject({ kind: 'ask', rules: ['default/schema'] });
    expect(verdict({ organisation: { ...lax, rules: [GLASS] } }, { tool })).toMatchObject({
      kind: 'allow',
      rules: ['organisation/rules/glass (break glass)', 'organisation/strategy/never', 'default/schema'],
      breakGlass: { rule: 'organisation/rules/glass' },
    });
  });

  test('E-2: lets pass what would be asked, and says so', () => {
    expect(verdict({ organisation })).toEqual({
      kind: 'allow',
      rules: ['organisation/rules/glass (break glass)', 'organisation/strategy/always'],
      breakGlass: { rule: 'organisation/rules/glass', ...breakGlass },
    });
  });

  test('what a catalog asks, too', () => {
    const catalog = { kind: 'ask' as const, rule: 'catalog/files/tools/write_file' };
    expect(verdict({ organisation: { strategy: 'never', rules: [GLASS] }, catalog })).toMatchObject({
      kind: 'allow',
      breakGlass: { reason: 'The pager is down.' },
    });
  });

  test('has an end, to the millisecond; a time that is none is over', () => {
    expect(verdict({ organisation }, { now: NOW + 1 })).toMatchObject({
      kind: 'ask',
      rules: ['organisation/strategy/always'],
    });
    const never = { ...GLASS, breakGlass: { ...breakGlass, until: 'one day' } };
    expect(verdict({ organisation: { rules: [never] } }).kind).toBe('ask');
    expect(judge(policyLayers({ organisation }), judgedTool(), 'ann').kind).toBe('ask');
  });

  test('takes back no denial, and no question of a run', () => {
    const denied = { servers: { files: { tools: { write_file: 'deny' as const } } }, rules: [GLASS] };
    expect(verdict({ organisation: denied }).kind).toBe('deny');
    expect(verdict({ organisation, run: { strategy: 'always', approvers: { ids: ['eve'] } } })).toMatchObject({
      kind: 'ask',
      rules: ['organisation/strategy/always', 'run/strategy/always'],
      approvers: { allOf: [{ layer: 'run', ids: ['eve'] }] },
    });
  });

  test('only where it is certain to match', () => {
    const when = { ...GLASS, when: 'x' };
    for (const holds of ['failed', 'unknown', false] as const)
      expect(verdict({ organisation: { rules: [when] } }, { holds }).kind).toBe('ask');
    expect(verdict({ organisation: { rules: [when] } }, { holds: true }).kind).toBe('allow');
    const hinted = { ...GLASS, match: { annotations: { readOnlyHint: true } } };
    const tool = { annotations: { readOnlyHint: true } };
    expect(verdict({ organisation: { rules: [hinted] } }, { tool }).kind).toBe('ask');
    expect(verdict({ organisation: { rules: [{ ...GLASS, match: { server: 'mail' } }] } }).kind).toBe('ask');
  });

  test('is no news where nothing would be asked', () => {
    expect(verdict({ organisation: { strategy: 'never', rules: [GLASS] } })).toEqual({
      kind: 'allow',
      rules: ['organisation/strategy/never'],
    });
  });
});

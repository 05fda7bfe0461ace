/** Two layers of policy: the strictest verdict wins, and a run can only tighten (INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { judge, type JudgedTool, type PolicyLayers } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool } from '../../../support/builders/policy.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const DAY = 86_400;

const tool: fc.Arbitrary<JudgedTool> = fc.record({
  server: fc.constantFrom('files', 'mail', 'other', 'constructor'),
  tool: fc.constantFrom('write_file', 'read_file', 'constructor', 'unlisted'),
  annotations: fc.constantFrom(undefined, { readOnlyHint: true }, { readOnlyHint: false }),
  serverTrusted: fc.boolean(),
});

function ask(
  organisation: Policy,
  run: PolicyLayers['run'],
  over: Partial<JudgedTool> = {},
): Extract<Verdict, { kind: 'ask' }> {
  const verdict = judge({ organisation, run }, judgedTool(over), 'ann');
  if (verdict.kind !== 'ask') throw new Error(`the verdict is ${verdict.kind}`);
  return verdict;
}

describe('layers', () => {
  test('no layer of a run ever loosens: what was asked is not allowed, what was denied stays denied', () => {
    fc.assert(
      fc.property(policy, policy, tool, (organisation, run, judged) => {
        const alone = judge({ organisation, run: undefined }, judged, 'ann');
        const both = judge({ organisation, run }, judged, 'ann');
        expect(STRICTNESS[both.kind]).toBeGreaterThanOrEqual(STRICTNESS[alone.kind]);
      }),
      { numRuns: 300 },
    );
  });

  test('no layer of a run gives more time than the organisation does', () => {
    fc.assert(
      fc.property(policy, policy, tool, (organisation, run, judged) => {
        const alone = judge({ organisation, run: undefined }, judged, 'ann');
        const both = judge({ organisation, run }, judged, 'ann');
        fc.pre(alone.kind === 'ask' && both.kind === 'ask');
        expect(both.deadlineSeconds).toBeLessThanOrEqual(alone.deadlineSeconds);
      }),
    );
  });

  test('no layer of a run entitles somebody whom approvers named by the organisation leave out', () => {
    const somebody = fc.record({ id: fc.constantFrom('ann', 'bob', 'zoe'), groups: fc.subarray(['ops', 'sec']) });
    fc.assert(
      fc.property(policy, policy, tool, somebody, (organisation, run, judged, who) => {
        const alone = judge({ organisation, run: undefined }, judged, 'ann');
        const both = judge({ organisation, run }, judged, 'ann');
        fc.pre(
          alone.kind === 'ask' &&
            both.kind === 'ask' &&
            alone.approvers.allOf.every(({ layer }) => layer !== 'default'),
        );
        if (isMet(both.approvers, [who])) expect(isMet(alone.approvers, [who])).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  test('the strictest verdict wins: deny over ask over allow', () => {
    const deny: Policy = { servers: { files: { default: 'deny' } } };
    expect(judge({ organisation: deny, run: { strategy: 'never' } }, judgedTool(), 'ann').kind).toBe('deny');
    expect(judge({ organisation: { strategy: 'never' }, run: deny }, judgedTool(), 'ann').kind).toBe('deny');
    expect(judge({ organisation: { strategy: 'never' }, run: { strategy: 'always' } }, judgedTool(), 'ann').kind).toBe(
      'ask',
    );
    expect(judge({ organisation: { strategy: 'always' }, run: { strategy: 'never' } }, judgedTool(), 'ann').kind).toBe(
      'ask',
    );
    expect(judge({ organisation: { strategy: 'never' }, run: { strategy: 'never' } }, judgedTool(), 'ann').kind).toBe(
      'allow',
    );
  });

  test('all rules of the winning strictness are named, and none of the others', () => {
    const deny: Policy = { servers: { files: { default: 'deny' } } };
    expect(judge({ organisation: deny, run: deny }, judgedTool(), 'ann').rules).toEqual([
      'organisation/servers/files/default',
      'run/servers/files/default',
    ]);
    expect(judge({ organisation: { strategy: 'always' }, run: deny }, judgedTool(), 'ann').rules).toEqual([
      'run/servers/files/default',
    ]);
    expect(ask({ strategy: 'never' }, { strategy: 'always' }).rules).toEqual(['run/strategy/always']);
    expect(
      judge({ organisation: { strategy: 'never' }, run: { strategy: 'never' } }, judgedTool(), 'ann').rules,
    ).toEqual(['organisation/strategy/never', 'run/strategy/never']);
  });

  test('a layer of the run that says nothing of a server has no say in it', () => {
    const run: Policy = {
      servers: { mail: { default: 'deny' } },
      approvers: { ids: ['bob'], groups: [] },
      deadlineSeconds: 60,
    };
    expect(judge({ organisation: { strategy: 'never' }, run }, judgedTool(), 'ann').kind).toBe('allow');
    expect(judge({ organisation: { strategy: 'never' }, run: {} }, judgedTool(), 'ann').kind).toBe('allow');
  });
});

describe('who is asked', () => {
  const ops = { ids: [], groups: ['ops'] };
  const bob = { ids: ['bob'], groups: [] };

  test('approvers of every asking layer must be met', () => {
    expect(ask({ approvers: ops }, { strategy: 'always', approvers: bob }).approvers).toEqual({
      allOf: [
        { layer: 'organisation', ...ops },
        { layer: 'run', ...bob },
      ],
      together: true,
    });
  });

  test('approvers of a layer that allows are not asked', () => {
    expect(ask({ strategy: 'never', approvers: ops }, { strategy: 'always', approvers: bob }).approvers.allOf).toEqual([
      { layer: 'run', ...bob },
    ]);
  });

  test('a run may add approvers without stating any rule', () => {
    expect(ask({ approvers: ops }, { approvers: bob }).approvers.allOf).toHaveLength(2);
  });

  test('approvers of a tool take the place of those of its layer', () => {
    const organisation: Policy = {
      approvers: ops,
      servers: { files: { tools: { write_file: { action: 'ask', approvers: bob } } } },
    };
    expect(ask(organisation, undefined).approvers.allOf).toEqual([{ layer: 'organisation', ...bob }]);
    expect(ask(organisation, undefined, { tool: 'read_file' }).approvers.allOf).toEqual([
      { layer: 'organisation', ...ops },
    ]);
  });

  test('where nobody is named, the person who started the run decides', () => {
    expect(ask({}, undefined).approvers).toEqual({ allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] });
  });

  test('a run that came without its defaults, as a direct starter may send it, names the same people', () => {
    const { approvers } = ask({ approvers: ops }, { approvers: { ids: ['bob'] } });
    expect(approvers.allOf[1]).toEqual({ layer: 'run', ...bob });
    expect(ask({}, { approvers: {} }).approvers.allOf).toEqual([{ layer: 'run', ids: [], groups: [] }]);
  });

  test('INV-G4: an empty list is a list: it entitles nobody, and nobody takes its place', () => {
    const { approvers } = ask({ approvers: { ids: [], groups: [] } }, undefined);
    expect(approvers).toEqual({ allOf: [{ layer: 'organisation', ids: [], groups: [] }] });
    expect(isMet(approvers, [{ id: 'ann', groups: [] }])).toBe(false);
  });
});

describe('until when', () => {
  test('24 hours where nobody says otherwise', () => {
    expect(ask({}, undefined).deadlineSeconds).toBe(DAY);
    expect(ask({ strategy: 'never' }, { strategy: 'always' }).deadlineSeconds).toBe(DAY);
  });

  test('the deadline of a tool takes the place of that of its layer, longer or shorter', () => {
    const tools = { write_file: { action: 'ask', deadlineSeconds: 7 * DAY } } as const;
    expect(ask({ deadlineSeconds: 60, servers: { files: { tools } } }, undefined).deadlineSeconds).toBe(7 * DAY);
  });

  test('of two layers the shorter wins', () => {
    expect(ask({ deadlineSeconds: 60 }, { strategy: 'always', deadlineSeconds: 30 }).deadlineSeconds).toBe(30);
    expect(ask({ deadlineSeconds: 60 }, { strategy: 'always', deadlineSeconds: 90 }).deadlineSeconds).toBe(60);
    expect(ask({ deadlineSeconds: 60 }, { deadlineSeconds: 30 }).deadlineSeconds).toBe(30);
  });

  test('F-3: a layer of the run that says nothing of time leaves a long deadline as long as it is', () => {
    expect(ask({ deadlineSeconds: 7 * DAY }, {}).deadlineSeconds).toBe(7 * DAY);
    expect(ask({ deadlineSeconds: 7 * DAY }, { approvers: { ids: ['bob'], groups: [] } }).deadlineSeconds).toBe(
      7 * DAY,
    );
    expect(ask({ deadlineSeconds: 7 * DAY }, { strategy: 'always' }).deadlineSeconds).toBe(7 * DAY);
  });

  test('F-3: where only the run asks, its deadline counts as it stands', () => {
    expect(ask({ strategy: 'never' }, { strategy: 'always', deadlineSeconds: 7 * DAY }).deadlineSeconds).toBe(7 * DAY);
  });
});

/** Two layers of policy: the strictest verdict wins, and a run can only tighten (INV-G4). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { isMet } from '../../../../domain/policy/approvers.ts';
import { judge, type JudgedTool, type PolicyLayers } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool } from '../../../support/builders/policy.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const DAY = 86_400;
const [ops, bob, nobody] = [
  { ids: [], groups: ['ops'] },
  { ids: ['bob'], groups: [] },
  { ids: [], groups: [] },
];
const [never, always]: [Policy, Policy] = [{ strategy: 'never' }, { strategy: 'always' }];
type Layer = PolicyLayers['run'];

const verdict = (organisation: Policy, run: Layer, over: Partial<JudgedTool> = {}): Verdict =>
  judge({ organisation, run }, judgedTool(over), 'ann');

describe('a layer of a run, compared with the organisation alone,', () => {
  const tool: fc.Arbitrary<JudgedTool> = fc.record({
    server: fc.constantFrom('files', 'mail', 'other', 'constructor'),
    tool: fc.constantFrom('write_file', 'read_file', 'constructor', 'unlisted'),
    annotations: fc.constantFrom(undefined, { readOnlyHint: true }, { readOnlyHint: false }),
    serverTrusted: fc.boolean(),
  });
  const judged = fc
    .tuple(policy, policy, tool)
    .map(
      ([organisation, run, over]) =>
        [verdict(organisation, undefined, over), verdict(organisation, run, over)] as const,
    );

  test('no layer of a run ever loosens: what was asked is not allowed, what was denied stays denied', () => {
    const isAsStrict = ([alone, both]: readonly Verdict[]) =>
      alone !== undefined && both !== undefined && STRICTNESS[both.kind] >= STRICTNESS[alone.kind];
    forMany({ numRuns: 300 }, judged, isAsStrict);
  });

  test('gives no more time than the organisation does', () => {
    forAll(judged, ([alone, both]) => {
      fc.pre(alone.kind === 'ask' && both.kind === 'ask');
      expect(both.deadlineSeconds).toBeLessThanOrEqual(alone.deadlineSeconds);
    });
  });

  test('entitles nobody whom approvers named by the organisation leave out', () => {
    const somebody = fc.record({ id: fc.constantFrom('ann', 'bob', 'zoe'), groups: fc.subarray(['ops', 'sec']) });
    forMany({ numRuns: 200 }, judged, somebody, ([alone, both], who) => {
      fc.pre(alone.kind === 'ask' && both.kind === 'ask');
      fc.pre(alone.approvers.allOf.every(({ layer }) => layer !== 'default'));
      if (isMet(both.approvers, [who])) expect(isMet(alone.approvers, [who])).toBe(true);
    });
  });
});

const deny: Policy = { servers: { files: { default: 'deny' } } };
const elsewhere: Policy = { servers: { mail: { default: 'deny' } }, approvers: bob, deadlineSeconds: 60 };

test.each<[string, Policy, Layer, Verdict['kind'], readonly string[]]>([
  ['deny over allow', deny, never, 'deny', ['organisation/servers/files/default']],
  ['deny of a run over allow', never, deny, 'deny', ['run/servers/files/default']],
  ['deny over ask', always, deny, 'deny', ['run/servers/files/default']],
  ['deny of both', deny, deny, 'deny', ['organisation/servers/files/default', 'run/servers/files/default']],
  ['ask over allow', always, never, 'ask', ['organisation/strategy/always']],
  ['ask of a run over allow', never, always, 'ask', ['run/strategy/always']],
  ['allow of both', never, never, 'allow', ['organisation/strategy/never', 'run/strategy/never']],
  ['a run that speaks of another server has no say', never, elsewhere, 'allow', ['organisation/strategy/never']],
  ['a run that says nothing has none', never, {}, 'allow', ['organisation/strategy/never']],
])('the strictest verdict wins, with all its rules and no others: %s', (_what, organisation, run, kind, rules) => {
  expect(verdict(organisation, run)).toMatchObject({ kind, rules });
});

describe('who is asked', () => {
  const organisation = (list: object) => ({ layer: 'organisation', ...list });
  const ofRun = (list: object) => ({ layer: 'run', ...list });
  const write: Policy = {
    approvers: ops,
    servers: { files: { tools: { write_file: { action: 'ask', approvers: bob } } } },
  };
  const bobAsks: Policy = { strategy: 'always', approvers: bob };

  test.each<[string, Policy, Layer, readonly object[], Partial<JudgedTool>?]>([
    ['approvers of each layer that asks', { approvers: ops }, bobAsks, [organisation(ops), ofRun(bob)]],
    ['none of a layer that allows', { ...never, approvers: ops }, bobAsks, [ofRun(bob)]],
    ['those whom a run adds without a rule', { approvers: ops }, { approvers: bob }, [organisation(ops), ofRun(bob)]],
    ['approvers of a tool in place of those of its layer', write, undefined, [organisation(bob)]],
    ['those of the layer for another tool', write, undefined, [organisation(ops)], { tool: 'read_file' }],
    ['who started the run, where nobody is named', {}, undefined, [{ layer: 'default', ids: ['ann'], groups: [] }]],
    [
      'those of a run without its defaults',
      { approvers: ops },
      { approvers: { ids: ['bob'] } },
      [organisation(ops), ofRun(bob)],
    ],
    ['nobody, where such a run has an empty list', {}, { approvers: {} }, [ofRun(nobody)]],
    ['INV-G4: nobody, where a list is empty: it is a list', { approvers: nobody }, undefined, [organisation(nobody)]],
  ])('%s', (_what, ofAll, run, allOf, over = {}) => {
    const asked = verdict(ofAll, run, over);
    const together = allOf.length > 1 ? { together: true } : {};
    expect(asked).toMatchObject({ kind: 'ask', approvers: { allOf, ...together } });
    expect(asked.kind === 'ask' && 'together' in asked.approvers).toBe(allOf.length > 1);
    if (ofAll.approvers === nobody)
      expect(asked.kind === 'ask' && isMet(asked.approvers, [{ id: 'ann', groups: [] }])).toBe(false);
  });
});

describe('until when', () => {
  const tools = { write_file: { action: 'ask', deadlineSeconds: 7 * DAY } } as const;

  test.each<[string, Policy, Layer, number]>([
    ['24 hours where nobody says otherwise', {}, undefined, DAY],
    ['24 hours where a run asks and says nothing', never, always, DAY],
    [
      'as its tool says, longer than its layer',
      { deadlineSeconds: 60, servers: { files: { tools } } },
      undefined,
      7 * DAY,
    ],
    ['the shorter of two', { deadlineSeconds: 60 }, { ...always, deadlineSeconds: 30 }, 30],
    ['the shorter of two, which the organisation has', { deadlineSeconds: 60 }, { ...always, deadlineSeconds: 90 }, 60],
    ['the shorter of a run without any rule', { deadlineSeconds: 60 }, { deadlineSeconds: 30 }, 30],
    ['F-3: long, where the run says nothing', { deadlineSeconds: 7 * DAY }, {}, 7 * DAY],
    ['F-3: long, where the run names people', { deadlineSeconds: 7 * DAY }, { approvers: bob }, 7 * DAY],
    ['F-3: long, where the run asks', { deadlineSeconds: 7 * DAY }, always, 7 * DAY],
    ['F-3: as it stands, where only the run asks', never, { ...always, deadlineSeconds: 7 * DAY }, 7 * DAY],
  ])('%s', (_what, organisation, run, deadlineSeconds) => {
    expect(verdict(organisation, run)).toMatchObject({ kind: 'ask', deadlineSeconds });
  });
});

describe('who is told (I-1)', () => {
  const route = (channel: string) => ({ channel });
  const rules = (...told: (readonly { readonly channel: string }[] | undefined)[]) =>
    told.map((notify, index) => ({ id: `r${index}`, then: 'ask' as const, when: 'odd', ...(notify && { notify }) }));
  const toldBy = (organisation: object, run?: Layer): unknown => {
    const judged = judge({ organisation, run }, judgedTool(), 'ann');
    return judged.kind === 'ask' ? judged.notify : 'not asked';
  };

  test('stands in the verdict where a rule of the organisation says so, and nowhere else', () => {
    expect(toldBy({ ...always, notify: [route('all')] })).toBeUndefined();
    expect(toldBy({ rules: [{ id: 'r', then: 'ask', notify: [route('own')] }] })).toEqual([route('own')]);
    expect(toldBy({ rules: [{ id: 'r', then: 'ask', notify: [] }] })).toEqual([]);
    expect(toldBy({ rules: [{ id: 'r', then: 'ask' }] })).toBeUndefined();
    const stray: object = { rules: [{ id: 'r', then: 'ask', notify: [route('own')] }] };
    // Sound: a run's rule has no such field; one that comes all the same tells nobody.
    const run = stray as Layer;
    expect(toldBy({ ...never, notify: [route('all')] }, run)).toBeUndefined();
  });

  test('by each rule that asks because its match is uncertain', () => {
    expect(toldBy({ rules: rules([route('a')], undefined, [route('b')]) })).toEqual([route('a'), route('b')]);
  });
});

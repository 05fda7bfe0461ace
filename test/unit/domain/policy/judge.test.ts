/** What policy says of one call inside one layer: strategies, lists, rules, hints and times (S2.1, S4.1, D-10, F-4, F-6, F25, INV-G4). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import { Policy, type PolicyInput, type PolicyRuleInput } from '../../../../contracts/schemas/policy.ts';
import { hintsHold, type Holds, judge, type JudgedTool } from '../../../../domain/policy/judge.ts';
import { mayRemember } from '../../../../domain/request/standing.ts';
import { jsonValue, policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool, policyLayers } from '../../../support/builders/policy.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const NEVER = { strategy: 'never' } as const;
type Kind = Verdict['kind'];

const verdictOf = (organisation: Policy, tool: Partial<JudgedTool> = {}): Verdict =>
  judge(policyLayers({ organisation }), judgedTool(tool), 'ann');

/** What a stored policy of another version may hold. */
function odd(value: unknown): Policy {
  // Sound for the test: the judge is asked about a value that its type forbids.
  return value as Policy;
}

describe('a strategy', () => {
  const byHints = { strategy: 'annotations' } as const;
  const [annotations, serverTrusted] = [{ readOnlyHint: true }, true] as const;
  // What JSON holds under `__proto__` may end up as a prototype in a careless copy.
  const inherited = Object.create(annotations) as Record<string, never>;

  test.each<[string, Policy, Partial<JudgedTool>, Kind, string]>([
    ['S2.1: always asks', { strategy: 'always' }, {}, 'ask', 'strategy/always'],
    ['S2.1: never allows', NEVER, {}, 'allow', 'strategy/never'],
    ['INV-G4: without a policy every call is asked', {}, {}, 'ask', 'default'],
    [
      'S2.1: hints of a trusted server',
      byHints,
      { annotations, serverTrusted },
      'allow',
      'strategy/annotations/read-only',
    ],
    ['S2.1: hints of another server', byHints, { annotations }, 'ask', 'strategy/annotations'],
    ['S2.1: no hints', byHints, { serverTrusted }, 'ask', 'strategy/annotations'],
    ['INV-G4: inherited hints', byHints, { annotations: inherited, serverTrusted }, 'ask', 'strategy/annotations'],
    ['hints under another strategy', { strategy: 'always' }, { annotations, serverTrusted }, 'ask', 'strategy/always'],
    ['hints under none', {}, { annotations, serverTrusted }, 'ask', 'default'],
    ...['sometimes', '', 'Never', 'allow', null, 7].map((strategy): [string, Policy, object, Kind, string] => [
      `S2.1, INV-G4: one that nobody knows, ${JSON.stringify(strategy)}`,
      odd({ strategy }),
      {},
      'ask',
      'default',
    ]),
  ])('%s', (_what, layer, tool, kind, rule) => {
    expect(verdictOf(layer, tool)).toMatchObject({ kind, rules: [`organisation/${rule}`] });
  });

  test('S2.1, INV-G4: any other annotation asks', () => {
    const given = fc.oneof(
      fc.record({ readOnlyHint: jsonValue.filter((value) => value !== true) }),
      fc.constantFrom<object>(
        {},
        ...['true', 1, [true]].map((readOnlyHint) => ({ readOnlyHint })),
        { readonlyhint: true },
        { destructiveHint: false },
      ),
    );
    forAll(
      given,
      (hints) => verdictOf(byHints, { annotations: hints as JudgedTool['annotations'], serverTrusted }).kind === 'ask',
    );
  });
});

describe('rules of one layer', () => {
  const files = { default: 'allow', tools: { write_file: 'deny', read_file: { action: 'ask' } } } as const;
  const layer: Policy = { strategy: 'always', servers: { files } };
  const { tools } = files;
  const dotted: Policy = { ...NEVER, servers: { files: { tools: { 'issue.get': 'deny' } } } };

  test.each<[string, Policy, Partial<JudgedTool>, Kind, string]>([
    ['the first that matches wins: the tool', layer, {}, 'deny', 'servers/files/tools/write_file'],
    ['the tool, as an object', layer, { tool: 'read_file' }, 'ask', 'servers/files/tools/read_file'],
    ['then the server', layer, { tool: 'list' }, 'allow', 'servers/files/default'],
    ['then the strategy', layer, { server: 'mail' }, 'ask', 'strategy/always'],
    [
      'S4.1: the strategy for an unlisted tool',
      { ...NEVER, servers: { files: { tools } } },
      { tool: 'list' },
      'allow',
      'strategy/never',
    ],
    ['S4.1: without one it is asked', { servers: { files: { tools } } }, { tool: 'list' }, 'ask', 'default'],
    ['S4.1: also where nothing is listed', { servers: { files: {} } }, {}, 'ask', 'default'],
    [
      'S3.5: tools are known by their original names',
      dotted,
      { tool: 'issue.get' },
      'deny',
      'servers/files/tools/issue.get',
    ],
    ['S3.5: and by no others', dotted, { tool: 'issue_get' }, 'allow', 'strategy/never'],
  ])('%s', (_what, organisation, tool, kind, rule) => {
    expect(verdictOf(organisation, tool)).toMatchObject({ kind, rules: [`organisation/${rule}`] });
  });

  const lists = { always: ['files/a*'], never: ['files/ab', 'files/c'] };
  test.each<[string, Policy, string, Kind, string]>([
    ['in always', lists, 'a', 'ask', 'lists/always'],
    ['in never', lists, 'c', 'allow', 'lists/never'],
    ['in both', lists, 'ab', 'ask', 'lists/both'],
    ['in neither', lists, 'd', 'ask', 'lists/neither'],
    ['in neither, with one list', { never: ['files/c'] }, 'd', 'ask', 'lists/neither'],
    ['in neither, with an empty list', { never: [] }, 'd', 'ask', 'lists/neither'],
  ])('S4.1: a tool %s has the same verdict whatever strategy stands beside', (_what, stated, tool, kind, rule) => {
    const annotations = { readOnlyHint: true };
    const strategies = [undefined, 'always', 'never', 'annotations', 'sometimes'];
    for (const strategy of strategies) {
      const organisation = odd({ ...stated, strategy });
      const rules = [`organisation/${rule}`];
      expect(verdictOf(organisation, { tool, annotations, serverTrusted: true })).toMatchObject({ kind, rules });
    }
  });

  test('S4.1: what a layer says of a tool or server by name stands before its being in neither list', () => {
    const servers = { files: { default: 'allow', tools: { d: 'deny' } } } as const;
    expect(verdictOf({ ...lists, servers }, { tool: 'd' }).kind).toBe('deny');
    expect(verdictOf({ ...lists, servers }, { tool: 'e' }).kind).toBe('allow');
  });

  test.each(['permit', '', 'ALLOW', null])('INV-G4: an action that nobody knows asks: %j', (action) => {
    for (const listed of [
      { default: action },
      { tools: { write_file: { action } } },
      { tools: { write_file: 'permit' } },
    ])
      expect(verdictOf(odd({ ...NEVER, servers: { files: listed } })).kind).toBe('ask');
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])(
    'a tool or server named %s is a name like any other',
    (name) => {
      const kinds = (stated: Readonly<Record<string, 'deny'>>, kind: Kind) => {
        expect(verdictOf({ ...NEVER, servers: { files: { tools: stated } } }, { tool: name }).kind).toBe(kind);
        const servers = Object.fromEntries(Object.keys(stated).map((server) => [server, { default: 'deny' as const }]));
        expect(verdictOf({ ...NEVER, servers }, { server: name }).kind).toBe(kind);
      };
      kinds({}, 'allow');
      kinds({ [name]: 'deny' }, 'deny');
    },
  );

  test('every verdict names a rule', () => {
    forAll(policy, (given) => verdictOf(given).rules.length > 0);
  });

  test('a denial says which tool and which rule, for the model and the caller', () => {
    expect(verdictOf({ servers: { files } })).toEqual({
      kind: 'deny',
      code: 'POLICY_DENIED',
      rules: ['organisation/servers/files/tools/write_file'],
      message: 'files/write_file is denied by organisation/servers/files/tools/write_file.',
    });
  });
});

describe('ordered rules', () => {
  function verdict(organisation: PolicyInput, holds: Holds = 'unknown', run?: PolicyInput) {
    return judge({ organisation: organisation as never, run }, judgedTool(), 'ann', () => holds);
  }
  const rule = (then: PolicyRuleInput['then'], over: object = { when: 'x' }): PolicyRuleInput => ({
    id: 'r',
    then,
    ...over,
  });

  test.each<[string, PolicyInput, Holds, Kind, PolicyInput?]>([
    ['INV-G4: a condition that fails matches for what denies', { rules: [rule('deny')], ...NEVER }, 'failed', 'deny'],
    ['INV-G4: and for what asks', { rules: [rule('ask')], ...NEVER }, 'failed', 'ask'],
    ['INV-G4: never for what allows', { rules: [rule('allow')] }, 'failed', 'ask'],
    ['INV-G4: one that is unknown, for what denies', { rules: [rule('deny')], ...NEVER }, 'unknown', 'deny'],
    ['INV-G4: for what asks', { rules: [rule('ask')], ...NEVER }, 'unknown', 'ask'],
    ['INV-G4: not for what allows', { rules: [rule('allow')] }, 'unknown', 'ask'],
    // A stored policy of a later version may hold it.
    ['an action that nobody knows asks', { rules: [rule('escalate' as 'ask', {})], ...NEVER }, true, 'ask'],
    ['a run with lists has a say about everything', NEVER, true, 'ask', { always: ['mail/send'] }],
    ['also one that its list allows', NEVER, true, 'allow', { never: ['files/*'] }],
  ])('%s', (_what, organisation, holds, kind, ...[run]) => {
    expect(verdict(organisation, holds, run).kind).toBe(kind);
  });

  test('D-10: a condition never makes a verdict looser than the stricter of what it would be either way', () => {
    forMany({ numRuns: 500 }, policy, fc.constantFrom('failed' as const, 'unknown' as const), (organisation, holds) => {
      const either = [true, false].map((answer) => STRICTNESS[verdict(organisation, answer).kind]);
      expect(STRICTNESS[verdict(organisation, holds).kind]).toBeGreaterThanOrEqual(Math.max(...either));
    });
  });

  test('that it failed is said in the rules, and those who may be meant are asked together', () => {
    const rules: PolicyRuleInput[] = [
      { id: 'a', when: 'x', then: 'ask', approvers: { ids: ['eve'] }, explain: 'First.' },
      { id: 'b', then: 'ask', approvers: { ids: ['eve'] }, deadlineSeconds: 60, explain: 'Second.' },
    ];
    const named = ['organisation/rules/a (condition failed)', 'organisation/rules/b'];
    expect(verdict({ rules }, 'failed')).toEqual({
      kind: 'ask',
      rules: named,
      approvers: { allOf: [{ layer: 'organisation', ids: ['eve'], groups: [] }] },
      deadlineSeconds: 60,
      explain: ['First.', 'Second.'].map((text, index) => ({ rule: named[index], text })),
    });
  });

  test('without anybody to ask nothing is known of any condition', () => {
    const organisation = { rules: [{ id: 'a', when: 'true', then: 'allow' as const }] };
    expect(verdictOf(organisation)).toMatchObject({ rules: ['organisation/default'] });
  });

  test('of a run, one about others has no say, and one that failed asks though the run says nothing else', () => {
    const other = { rules: [rule('deny', { match: { server: 'mail' } })] };
    expect(verdict(NEVER, true, other)).toEqual({ kind: 'allow', rules: ['organisation/strategy/never'] });
    expect(verdict(NEVER, true, { always: ['mail/send'] })).toMatchObject({ rules: ['run/lists/neither'] });
    const rules = ['run/rules/r (condition failed)'];
    expect(verdict(NEVER, 'failed', { rules: [rule('ask')] })).toMatchObject({ kind: 'ask', rules });
  });

  describe('neverRemember', () => {
    const remembering: PolicyInput = { approvers: { ids: ['bob'], remember: ['call', 'tool'] } };
    const never = (more: Partial<PolicyRuleInput> = {}): PolicyRuleInput => ({
      ...rule('ask', more),
      neverRemember: true,
    });
    const mayBe = (organisation: PolicyInput, holds: Holds, run?: PolicyInput): boolean => {
      const said = verdict(organisation, holds, run);
      return said.kind === 'ask' && mayRemember(said.approvers, 'call');
    };

    test.each<[string, PolicyInput, Holds, boolean, PolicyInput?]>([
      ['without it the lists of approvers say', remembering, true, true],
      ['it forbids what it matches', { ...remembering, rules: [never()] }, true, false],
      ['also if an earlier rule decides', { ...remembering, rules: [rule('ask', { id: 'a' }), never()] }, true, false],
      ['nothing that it does not match', { ...remembering, rules: [never({ match: { server: 'mail' } })] }, true, true],
      ['INV-G4: an uncertain condition forbids', { ...remembering, rules: [never({ when: 'x' })] }, 'failed', false],
      [
        'a condition that does not hold forbids nothing',
        { ...remembering, rules: [never({ when: 'x' })] },
        false,
        true,
      ],
      ['a run may forbid it, too', remembering, true, false, { rules: [never()] }],
    ])('%s', (_what, organisation, holds, expected, ...[run]) => {
      expect(mayBe(organisation, holds, run)).toBe(expected);
    });

    test('it changes nothing else of the rule', () => {
      const [one, other] = [
        verdict({ ...remembering, rules: [never()] }, true),
        verdict({ ...remembering, rules: [rule('ask')] }, true),
      ];
      const plain = (said: Verdict) => JSON.stringify(said).replace(',"remember":["call","tool"]', '');
      expect(plain(one)).toBe(plain(other));
    });
  });

  test('what a rule explains reaches the model inert', () => {
    const message = expect.stringContaining('Not\\u{202e}now\\u{a}.');
    expect(verdict({ rules: [rule('deny', { explain: 'Not\u202Enow\n.' })] })).toMatchObject({ message });
  });
});

test.each([
  ['that are stated', { readOnlyHint: true }, { readOnlyHint: true }, true, true],
  ['that are stated otherwise', { readOnlyHint: true }, { readOnlyHint: false }, true, false],
  ['that are not stated are what MCP says: not read-only', { readOnlyHint: true }, {}, true, false],
  ['destructive', { destructiveHint: true }, undefined, true, true],
  ['to the open world', { openWorldHint: true }, {}, true, true],
  ['not idempotent', { idempotentHint: true }, {}, true, false],
  ['of an odd type', { readOnlyHint: true }, { readOnlyHint: 'true' }, true, 'unknown'],
  ['that nobody trusts', { readOnlyHint: true }, { readOnlyHint: true }, false, 'unknown'],
  ['that nobody asks for', {}, { readOnlyHint: 1 }, false, true],
  ['one of which is otherwise', { readOnlyHint: true, idempotentHint: true }, { readOnlyHint: true }, true, false],
  ['named as every object names it', { readOnlyHint: true }, { constructor: true }, true, false],
  ['of which none is wanted', undefined, undefined, false, true],
] as const)('F25: hints %s', (_, wanted, annotations, isTrusted, held) => {
  expect(hintsHold(wanted, annotations, isTrusted)).toBe(held);
});

describe('times', () => {
  function approversUnder(organisation: PolicyInput, run?: PolicyInput) {
    const tool = { server: 'bank', tool: 'pay', annotations: undefined, serverTrusted: false };
    const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'ann');
    if (verdict.kind !== 'ask') throw new Error('it is asked');
    return verdict;
  }

  test('nothing is in the rule that nobody said: digests of today are those of before', () => {
    expect(approversUnder({ deadlineSeconds: 60 })).toEqual({
      kind: 'ask',
      rules: ['organisation/default'],
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      deadlineSeconds: 60,
    });
  });

  const pay = { action: 'ask' as const, validForSeconds: 7 };
  const most = { deadlineSeconds: 60, extendableToSeconds: 600 };

  test.each<[string, PolicyInput, PolicyInput | undefined, object]>([
    ['F-6: validity, as it is said', { validForSeconds: 60 }, undefined, { validForSeconds: 60 }],
    ['F-6: the shortest validity', { validForSeconds: 60 }, { validForSeconds: 5 }, { validForSeconds: 5 }],
    ['F-6: no longer one of a run', { validForSeconds: 60 }, { validForSeconds: 500 }, { validForSeconds: 60 }],
    [
      'F-6: of a tool for its layer',
      { validForSeconds: 60, servers: { bank: { tools: { pay } } } },
      undefined,
      { validForSeconds: 7 },
    ],
    ['F-7: the reminder', { remindAfterSeconds: 60 }, undefined, { remindAfterSeconds: 60 }],
    ['F-7: the first reminder', { remindAfterSeconds: 60 }, { remindAfterSeconds: 30 }, { remindAfterSeconds: 30 }],
    ['F-7: no later one of a run', { remindAfterSeconds: 60 }, { remindAfterSeconds: 90 }, { remindAfterSeconds: 60 }],
    ['F-4: a postponed deadline, as it is permitted', most, undefined, { extendableToSeconds: 600 }],
    ['F-4: less where the run says less', most, { extendableToSeconds: 300 }, { extendableToSeconds: 300 }],
    ['F-4: no more because the run says more', most, { extendableToSeconds: 900 }, { extendableToSeconds: 600 }],
    ['F-4: none that the organisation does not permit', { deadlineSeconds: 60 }, { extendableToSeconds: 900 }, {}],
    [
      'F-4: none past 24 hours of its silence',
      {},
      { deadlineSeconds: 60, extendableToSeconds: 999_999 },
      { extendableToSeconds: 86_400 },
    ],
    ['F-4: none past the deadline of a run that permits none', most, { deadlineSeconds: 30 }, {}],
    ['F-4: none that would shorten', { deadlineSeconds: 60, extendableToSeconds: 30 }, undefined, {}],
  ])('%s', (_, organisation, run, times) => {
    const { allOf: _allOf, together: _together, ...said } = approversUnder(organisation, run).approvers;
    expect(said).toEqual(times);
  });
});

describe('a call whose arguments could not be checked', () => {
  const unchecked = 'takes too long';
  const approvers: Policy['approvers'] = { ids: ['bob'], groups: [], remember: ['call', 'tool'] };
  const judged = (organisation: Policy, more: Partial<JudgedTool> = { unchecked }): Verdict =>
    judge(policyLayers({ organisation: { ...organisation, approvers } }), judgedTool(more), 'ann');

  test.each<[string, Policy]>([
    ['would be allowed', NEVER],
    ['is asked about anyway', { strategy: 'always' }],
    ['is asked about by a rule', { rules: [{ id: 'r', then: 'ask', explain: 'Large.' }] }],
  ])('INV-G4: that %s is answered by no remembered approval, and approvers hear why', (_what, organisation) => {
    const said = judged(organisation);
    expect(said).toMatchObject({
      kind: 'ask',
      explain: expect.arrayContaining([
        { rule: 'default/schema', text: "The arguments could not be checked: the tool's schema takes too long." },
      ]),
    });
    expect(said.kind === 'ask' && mayRemember(said.approvers, 'call')).toBe(false);
    expect(said.kind === 'ask' && mayRemember(said.approvers, 'tool')).toBe(false);
  });

  test('else approvals may be remembered, and nothing is said of the schema', () => {
    const said = judged({ strategy: 'always' }, {});
    expect(said.kind === 'ask' && mayRemember(said.approvers, 'call')).toBe(true);
    expect(said).not.toHaveProperty('explain');
  });
});

/** What policy says of one call inside one layer (S2.1, S4.1, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Policy, type PolicyInput, type PolicyRuleInput } from '../../../../contracts/schemas/policy.ts';
import { hintsHold, type Holds, judge, type JudgedTool } from '../../../../domain/policy/judge.ts';
import { jsonValue, policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool, policyLayers } from '../../../support/builders/policy.ts';

function kindOf(organisation: Policy, tool: Partial<JudgedTool> = {}): string {
  return judge(policyLayers({ organisation }), judgedTool(tool), 'ann').kind;
}

/** What a stored policy of another version may hold. */
function odd(value: unknown): Policy {
  // Sound for the test: the judge is asked about a value that its type forbids.
  return value as Policy;
}

describe('strategies', () => {
  test('S2.1: always asks, never allows', () => {
    expect(kindOf({ strategy: 'always' })).toBe('ask');
    expect(kindOf({ strategy: 'never' })).toBe('allow');
  });

  test('INV-G4: without a policy every call is asked', () => {
    expect(kindOf({})).toBe('ask');
  });

  test('S2.1, INV-G4: a strategy that nobody knows asks', () => {
    for (const strategy of ['sometimes', '', 'Never', 'allow', null, 7]) expect(kindOf(odd({ strategy }))).toBe('ask');
  });

  test('S2.1: annotations exempt a call only by a boolean `readOnlyHint: true` of a trusted server', () => {
    const strategy = { strategy: 'annotations' } as const;
    const annotations = { readOnlyHint: true };
    expect(kindOf(strategy, { annotations, serverTrusted: true })).toBe('allow');
    expect(kindOf(strategy, { annotations, serverTrusted: false })).toBe('ask');
    expect(kindOf(strategy, { annotations: undefined, serverTrusted: true })).toBe('ask');
  });

  test('S2.1, INV-G4: any other annotation asks', () => {
    const annotations = fc.oneof(
      fc.record({ readOnlyHint: jsonValue.filter((value) => value !== true) }),
      fc.constantFrom(
        {},
        { readOnlyHint: 'true' },
        { readOnlyHint: 1 },
        { readOnlyHint: [true] },
        { readonlyhint: true },
        { destructiveHint: false },
      ),
    );
    fc.assert(
      fc.property(
        annotations,
        (given) => kindOf({ strategy: 'annotations' }, { annotations: given, serverTrusted: true }) === 'ask',
      ),
    );
  });

  test('INV-G4: a hint that the annotations only inherit asks', () => {
    // What JSON holds under `__proto__` may end up as a prototype in a careless copy.
    const annotations = Object.create({ readOnlyHint: true }) as Record<string, never>;
    expect(kindOf({ strategy: 'annotations' }, { annotations, serverTrusted: true })).toBe('ask');
  });

  test('annotations count under no other strategy', () => {
    const tool = { annotations: { readOnlyHint: true }, serverTrusted: true };
    expect(kindOf({ strategy: 'always' }, tool)).toBe('ask');
    expect(kindOf({}, tool)).toBe('ask');
  });
});

describe('rules of one layer', () => {
  const files = { default: 'allow', tools: { write_file: 'deny', read_file: { action: 'ask' } } } as const;

  test('the first that matches wins: tool, then server, then strategy', () => {
    const layer: Policy = { strategy: 'always', servers: { files } };
    expect(kindOf(layer)).toBe('deny');
    expect(kindOf(layer, { tool: 'read_file' })).toBe('ask');
    expect(kindOf(layer, { tool: 'list' })).toBe('allow');
    expect(kindOf(layer, { server: 'mail' })).toBe('ask');
  });

  test('S4.1: a tool of a listed server that no list names falls to the strategy, without one it is asked', () => {
    expect(kindOf({ strategy: 'never', servers: { files: { tools: files.tools } } }, { tool: 'list' })).toBe('allow');
    expect(kindOf({ servers: { files: { tools: files.tools } } }, { tool: 'list' })).toBe('ask');
    expect(kindOf({ servers: { files: {} } })).toBe('ask');
  });

  test('INV-G4: an action that nobody knows asks, also where the strategy would allow', () => {
    for (const action of ['permit', '', 'ALLOW', null]) {
      expect(kindOf(odd({ strategy: 'never', servers: { files: { default: action } } }))).toBe('ask');
      expect(kindOf(odd({ strategy: 'never', servers: { files: { tools: { write_file: { action } } } } }))).toBe('ask');
    }
    expect(kindOf(odd({ strategy: 'never', servers: { files: { tools: { write_file: 'permit' } } } }))).toBe('ask');
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])(
    'a tool or server named %s is a name like any other',
    (name) => {
      expect(kindOf({ strategy: 'never', servers: { files: { tools: {} } } }, { tool: name })).toBe('allow');
      expect(kindOf({ strategy: 'never', servers: {} }, { server: name })).toBe('allow');
      const stated = { [name]: 'deny' } as const;
      expect(kindOf({ strategy: 'never', servers: { files: { tools: stated } } }, { tool: name })).toBe('deny');
      expect(kindOf({ strategy: 'never', servers: { [name]: { default: 'deny' } } }, { server: name })).toBe('deny');
    },
  );

  test('S3.5: tools are known by their original names', () => {
    const layer: Policy = { strategy: 'never', servers: { files: { tools: { 'issue.get': 'deny' } } } };
    expect(kindOf(layer, { tool: 'issue.get' })).toBe('deny');
    expect(kindOf(layer, { tool: 'issue_get' })).toBe('allow');
  });

  test('every verdict names the rule that gave it', () => {
    const rules = (organisation: Policy, tool: Partial<JudgedTool> = {}): readonly string[] =>
      judge(policyLayers({ organisation }), judgedTool(tool), 'ann').rules;
    expect(rules({ servers: { files } })).toEqual(['organisation/servers/files/tools/write_file']);
    expect(rules({ servers: { files } }, { tool: 'list' })).toEqual(['organisation/servers/files/default']);
    expect(rules({ strategy: 'never' })).toEqual(['organisation/strategy/never']);
    expect(rules({ strategy: 'always' })).toEqual(['organisation/strategy/always']);
    expect(rules({ strategy: 'annotations' })).toEqual(['organisation/strategy/annotations']);
    expect(rules({ strategy: 'annotations' }, { annotations: { readOnlyHint: true }, serverTrusted: true })).toEqual([
      'organisation/strategy/annotations/read-only',
    ]);
    expect(rules({})).toEqual(['organisation/default']);
    fc.assert(fc.property(policy, (given) => rules(given).length > 0));
  });

  test('a denial says which tool and which rule, for the model and the caller', () => {
    expect(judge(policyLayers({ organisation: { servers: { files } } }), judgedTool(), 'ann')).toEqual({
      kind: 'deny',
      code: 'POLICY_DENIED',
      rules: ['organisation/servers/files/tools/write_file'],
      message: 'files/write_file is denied by organisation/servers/files/tools/write_file.',
    });
  });
});

/** Ordered rules of a layer, and conditions of which nothing certain is known (INV-G4, S4.1, D-10). */
describe('rules', () => {
  const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;

  function verdict(organisation: PolicyInput, holds: Holds = 'unknown', run?: PolicyInput) {
    return judge({ organisation: organisation as never, run }, judgedTool(), 'ann', () => holds);
  }

  describe('INV-G4: a condition that fails', () => {
    test.each(['failed', 'unknown'] as const)('%s: matches for what asks or denies, never for what allows', (holds) => {
      const rule = (then: PolicyRuleInput['then']): PolicyRuleInput => ({ id: 'r', when: 'x', then });
      expect(verdict({ rules: [rule('deny')], strategy: 'never' }, holds).kind).toBe('deny');
      expect(verdict({ rules: [rule('ask')], strategy: 'never' }, holds).kind).toBe('ask');
      expect(verdict({ rules: [rule('allow')] }, holds).kind).toBe('ask');
    });

    test('never makes a verdict looser than the stricter of what it would be either way', () => {
      fc.assert(
        fc.property(policy, fc.constantFrom('failed' as const, 'unknown' as const), (organisation, holds) => {
          const either = [true, false].map((answer) => STRICTNESS[verdict(organisation, answer).kind]);
          const unsure = STRICTNESS[verdict(organisation, holds).kind];
          expect(unsure).toBeGreaterThanOrEqual(Math.max(...either));
        }),
        { numRuns: 500 },
      );
    });

    test('is said in the rules, and those who may be meant are asked together', () => {
      const rules: PolicyRuleInput[] = [
        { id: 'a', when: 'x', then: 'ask', approvers: { ids: ['eve'] }, explain: 'First.' },
        { id: 'b', then: 'ask', approvers: { ids: ['eve'] }, deadlineSeconds: 60, explain: 'Second.' },
      ];
      expect(verdict({ rules }, 'failed')).toEqual({
        kind: 'ask',
        rules: ['organisation/rules/a (condition failed)', 'organisation/rules/b'],
        approvers: { allOf: [{ layer: 'organisation', ids: ['eve'], groups: [] }] },
        deadlineSeconds: 60,
        explain: [
          { rule: 'organisation/rules/a (condition failed)', text: 'First.' },
          { rule: 'organisation/rules/b', text: 'Second.' },
        ],
      });
    });

    test('without anybody to ask nothing is known of any condition', () => {
      const organisation = { rules: [{ id: 'a', when: 'true', then: 'allow' as const }] };
      expect(judge({ organisation, run: undefined }, judgedTool(), 'ann')).toMatchObject({
        rules: ['organisation/default'],
      });
    });
  });

  describe('a run', () => {
    test('with rules about others has no say; with lists it has one about everything', () => {
      const organisation = { strategy: 'never' as const };
      const other = { rules: [{ id: 'x', match: { server: 'mail' }, then: 'deny' as const }] };
      expect(verdict(organisation, true, other)).toEqual({ kind: 'allow', rules: ['organisation/strategy/never'] });
      expect(verdict(organisation, true, { always: ['mail/send'] })).toMatchObject({ rules: ['run/default'] });
      expect(verdict(organisation, true, { never: ['files/*'] }).kind).toBe('allow');
    });

    test('that asks because a condition failed asks though it says nothing else', () => {
      const run = { rules: [{ id: 'x', when: 'y', then: 'ask' as const }] };
      expect(verdict({ strategy: 'never' }, 'failed', run)).toMatchObject({
        kind: 'ask',
        rules: ['run/rules/x (condition failed)'],
      });
    });
  });

  test('what a rule explains reaches the model inert', () => {
    const rules: PolicyRuleInput[] = [{ id: 'no', then: 'deny', explain: 'Not\u202Enow\n.' }];
    expect(verdict({ rules })).toMatchObject({ message: expect.stringContaining('Not\\u{202e}now\\u{a}.') });
  });

  test('a rule whose action nobody knows asks', () => {
    // Sound: a stored policy of a later version may hold it.
    const rules = [{ id: 'later', then: 'escalate' }] as unknown as PolicyRuleInput[];
    expect(verdict({ rules, strategy: 'never' }).kind).toBe('ask');
  });
});

/** What a rule may conclude from a tool's hints (F25, INV-G4). */
describe('hints', () => {
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
  ] as const)('F25: hints %s', (_, wanted, annotations, isTrusted, held) => {
    expect(hintsHold(wanted, annotations, isTrusted)).toBe(held);
  });

  test('no hints wanted hold', () => {
    expect(hintsHold(undefined, undefined, false)).toBe(true);
  });
});

/** What several layers of policy say of the time of a request (F-4, F-6). */
describe('times', () => {
  const tool = { server: 'bank', tool: 'pay', annotations: undefined, serverTrusted: false };

  function askedUnder(organisation: PolicyInput, run?: PolicyInput) {
    const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'ann');
    if (verdict.kind !== 'ask') throw new Error('it is asked');
    const { validForSeconds, extendableToSeconds } = verdict.approvers;
    return { deadline: verdict.deadlineSeconds, validForSeconds, extendableToSeconds };
  }

  test('nothing is in the rule that nobody said: digests of today are those of before', () => {
    expect(judge({ organisation: Policy.parse({ deadlineSeconds: 60 }), run: undefined }, tool, 'ann')).toEqual({
      kind: 'ask',
      rules: ['organisation/default'],
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      deadlineSeconds: 60,
    });
  });

  test('F-6: the shortest validity counts; a tool speaks in place of its layer', () => {
    expect(askedUnder({ validForSeconds: 60 })).toMatchObject({ validForSeconds: 60 });
    expect(askedUnder({ validForSeconds: 60 }, { validForSeconds: 5 })).toMatchObject({ validForSeconds: 5 });
    expect(askedUnder({ validForSeconds: 60 }, { validForSeconds: 500 })).toMatchObject({ validForSeconds: 60 });
    const pay = { action: 'ask' as const, validForSeconds: 7 };
    expect(askedUnder({ validForSeconds: 60, servers: { bank: { tools: { pay } } } })).toMatchObject({
      validForSeconds: 7,
    });
  });

  test('F-7: the first reminder counts, whichever layer wants it', () => {
    const reminded = (organisation: PolicyInput, run?: PolicyInput) => {
      const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'ann');
      return verdict.kind === 'ask' ? verdict.approvers.remindAfterSeconds : undefined;
    };
    expect(reminded({ remindAfterSeconds: 60 })).toBe(60);
    expect(reminded({ remindAfterSeconds: 60 }, { remindAfterSeconds: 30 })).toBe(30);
    expect(reminded({ remindAfterSeconds: 60 }, { remindAfterSeconds: 90 })).toBe(60);
  });

  test.each<[string, PolicyInput, PolicyInput | undefined, number | undefined]>([
    ['as the organisation permits', { deadlineSeconds: 60, extendableToSeconds: 600 }, undefined, 600],
    [
      'less where the run says less',
      { deadlineSeconds: 60, extendableToSeconds: 600 },
      { extendableToSeconds: 300 },
      300,
    ],
    [
      'no more because the run says more',
      { deadlineSeconds: 60, extendableToSeconds: 600 },
      { extendableToSeconds: 900 },
      600,
    ],
    ['not where the organisation does not permit it', { deadlineSeconds: 60 }, { extendableToSeconds: 900 }, undefined],
    ['not past the 24 hours of its silence', {}, { deadlineSeconds: 60, extendableToSeconds: 999_999 }, 86_400],
    [
      'not past the deadline of a run that permits nothing',
      { deadlineSeconds: 60, extendableToSeconds: 600 },
      { deadlineSeconds: 30 },
      undefined,
    ],
    ['not where it would shorten', { deadlineSeconds: 60, extendableToSeconds: 30 }, undefined, undefined],
  ])('F-4: the deadline may be postponed %s', (_, organisation, run, latest) => {
    expect(askedUnder(organisation, run).extendableToSeconds).toBe(latest);
  });
});

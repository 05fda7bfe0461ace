/** Who may decide, and when enough have (E-1, E-2, E-4, D-7, INV-G4). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import { Identifier } from '../../../../contracts/schemas/json.ts';
import { ApproverList, type ApproverRule, Policy, type PolicyInput } from '../../../../contracts/schemas/policy.ts';
import {
  answerersOf,
  clauseOf,
  describeRule,
  inWords,
  isMet,
  isSamePerson,
  isWanted,
  mayDecide,
  stillNeeded,
} from '../../../../domain/policy/approvers.ts';
import { judge } from '../../../../domain/policy/judge.ts';
import { approverList } from '../../../support/builders/arbitraries.ts';
import { approverRule, clauseFor } from '../../../support/builders/judgement.ts';
import { forAll } from '../../../support/for-all.ts';

const clause = approverList.map(({ notInitiator, ...list }) => ({
  layer: 'organisation' as const,
  ...list,
  ...(notInitiator === true ? { not: ['ann'] } : {}),
}));
const rule: fc.Arbitrary<ApproverRule> = fc.record({ allOf: fc.array(clause, { minLength: 1, maxLength: 3 }) });
const person = fc.record({
  id: fc.constantFrom('ann', 'bob', 'zoe'),
  groups: fc.uniqueArray(fc.constantFrom('ops', 'sec', 'ann'), { maxLength: 3 }),
});
const ann = { id: 'ann', groups: [] };

describe('entitlement', () => {
  test.each<[string, ApproverRule, { id: string; groups: string[] }, boolean]>([
    ['by id', approverRule(['ann', 'bob']), ann, true],
    ['by any of the groups', approverRule([], ['sec', 'ops']), { id: 'zoe', groups: ['x', 'ops'] }, true],
    ['by neither', approverRule(['bob'], ['ops']), { id: 'ann', groups: ['sec'] }, false],
    ['by an id that is no group', approverRule(['ops']), { id: 'zoe', groups: ['ops'] }, false],
    ['by a group that is no id', approverRule([], ['ann']), ann, false],
    ...['Ann', 'an', 'anna', 'ann '].map((id): [string, ApproverRule, { id: string; groups: string[] }, boolean] => [
      `by a name that is compared whole and as it is written: ${id}`,
      approverRule(['ann']),
      { id, groups: [] },
      false,
    ]),
  ])('a person is entitled %s', (_what, given, who, is) => {
    expect(isMet(given, [who])).toBe(is);
  });

  test('INV-G4: empty lists entitle nobody, whatever groups a person claims', () => {
    forAll(rule, person, (given, who) => {
      const withEmpty = { allOf: [...given.allOf, { layer: 'run' as const, ids: [], groups: [] }] };
      expect(isMet(withEmpty, [who])).toBe(false);
    });
  });

  test('INV-G4: nobody may decide what nobody could meet', () => {
    const empty = { layer: 'run' as const, ids: [], groups: [] };
    expect(mayDecide({ allOf: [] }, ann)).toBe(false);
    expect(mayDecide({ allOf: [...approverRule(['ann']).allOf, empty], together: true }, ann)).toBe(false);
  });

  test('INV-G4: a rule without any clause entitles nobody', () => {
    forAll(person, (who) => !isMet({ allOf: [] }, [who]));
  });

  test('every clause must be met: one more can only take people away', () => {
    forAll(rule, clause, person, (given, more, who) => {
      const stricter = { allOf: [...given.allOf, more] };
      expect(isMet(stricter, [who])).toBe(isMet(given, [who]) && isMet({ allOf: [more] }, [who]));
    });
  });
});

describe('two ids are one person', () => {
  const names = fc.constantFrom('ann', 'Ann', 'ANN', 'bob', 'Bob');
  const anyCase = { idCase: 'ignored' as const };

  test('where they are spelled alike, since every id is its own normal form (NFKC)', () => {
    const text = fc.oneof(
      fc.string({ minLength: 1, unit: 'binary' }),
      fc.string({ minLength: 1, unit: 'grapheme-ascii' }),
    );
    forAll(text, (id) => !Identifier.safeParse(id).success || id === id.normalize('NFKC'));
    // Cyrillic, wide and combined letters are no ids at all: nobody is named by a look-alike.
    for (const id of ['\u0430nn', '\uff41nn', 'a\u0301nn', 'ann\u200b'])
      expect(Identifier.safeParse(id).success).toBe(false);
  });

  test('in any case of letters only where policy ignores it', () => {
    forAll(names, names, (one, other) => {
      const lower = one.toLowerCase() === other.toLowerCase();
      expect(isSamePerson({}, one, other)).toBe(one === other);
      expect(isSamePerson(anyCase, one, other)).toBe(lower);
      expect(mayDecide({ ...approverRule([one]), ...anyCase }, { id: other, groups: [] })).toBe(lower);
    });
  });

  test('so that nobody agrees twice, nor to a run of their own, under another spelling (E-1, E-2)', () => {
    const twice: ApproverRule = { allOf: [clauseFor([], { groups: ['ops'], need: 2 })], ...anyCase };
    const foreign: ApproverRule = { allOf: [clauseFor([], { groups: ['ops'], not: ['ann'] })], ...anyCase };
    forAll(names, names, (one, other) => {
      const [first, second] = [one, other].map((id) => ({ id, groups: ['ops'] }));
      if (first === undefined || second === undefined) throw new Error('two people');
      expect(isMet(twice, [first, second])).toBe(one.toLowerCase() !== other.toLowerCase());
      expect(isWanted(twice, [first], second)).toBe(one.toLowerCase() !== other.toLowerCase());
      expect(mayDecide(foreign, first)).toBe(one.toLowerCase() !== 'ann');
    });
  });

  test('as the organisation says when it asks: the rule keeps it, and a run or its default cannot change it', () => {
    const organisation = Policy.parse({ approvers: { ids: ['ann'] } });
    const tool = { server: 'files', tool: 'write', annotations: undefined, serverTrusted: false };
    const verdictOf = (idCase?: 'matters' | 'ignored') =>
      judge(
        { organisation: { ...organisation, ...defined({ idCase }) }, run: { approvers: { groups: ['ops'] } } },
        tool,
        'zoe',
      );
    expect(verdictOf('ignored')).toMatchObject({ kind: 'ask', approvers: { idCase: 'ignored' } });
    for (const exact of [verdictOf(), verdictOf('matters')]) expect(exact).not.toHaveProperty('approvers.idCase');
    expect(answerersOf({ organisation: { idCase: 'ignored' } }, 'zoe').approvers).toMatchObject({ idCase: 'ignored' });
    expect(Policy.safeParse({ idCase: 'ignored' }).success).toBe(false);
  });
});

describe('a rule in words', () => {
  test('names ids and groups, and joins clauses by and', () => {
    const two: ApproverRule = {
      allOf: [...approverRule(['ann', 'bob'], ['ops']).allOf, ...approverRule([], ['sec']).allOf],
    };
    expect(describeRule(two)).toBe('ann or bob or group:ops and group:sec');
  });

  test('says nobody where nobody may', () => {
    expect(describeRule(approverRule([]))).toBe('nobody');
    expect(inWords(approverRule([]))).toBe('nobody');
  });

  test('reads as a person would say it', () => {
    const [plain] = approverRule(['ann', 'ben'], ['finance']).allOf;
    if (plain === undefined) throw new Error('a rule has clauses');
    const said = (...allOf: ApproverRule['allOf']): string => inWords({ allOf });
    expect(said(plain)).toBe('ann, ben or anybody in finance');
    expect(said({ ...plain, need: 2, not: ['zoe'] })).toBe('2 people: ann, ben or anybody in finance (but not zoe)');
    expect(said({ ...plain, ids: [], may: ['edit', 'respond'] })).toBe(
      "anybody in finance (may change the arguments; may answer in the tool's place)",
    );
    expect(said({ ...plain, ids: [], remember: ['call', 'tool'] })).toBe(
      'anybody in finance (may approve later calls, too: the same call or any call of the tool)',
    );
    const [add, replace] = [
      { ids: ['eve'], groups: [] },
      { ids: [], groups: ['heads'] },
    ];
    expect(said({ ...plain, groups: [], escalate: { afterSeconds: 3_600, add } })).toBe(
      'ann or ben (after 1 h also eve)',
    );
    expect(
      said({ ...plain, groups: [], escalate: { afterSeconds: 90, replace } }, { ...plain, ids: ['law'], groups: [] }),
    ).toBe('ann or ben (after 90 s only anybody in heads), and also law');
    expect(said({ ...plain, remember: ['arguments'] })).toContain('calls with the same of some arguments');
  });
});

describe('several who must agree (E-2)', () => {
  const of = (ids: readonly string[], need?: number, not?: string[]): ApproverRule => ({
    allOf: [clauseFor(ids, defined({ need, not }))],
  });
  const [bob, zoe] = [
    { id: 'bob', groups: [] },
    { id: 'zoe', groups: ['sec'] },
  ];

  test('are counted as people: nobody counts twice, and a stranger not at all', () => {
    const two = of(['ann', 'bob'], 2);
    expect(isMet(two, [ann, ann])).toBe(false);
    expect(isMet(two, [ann, zoe])).toBe(false);
    expect(isMet(two, [bob, ann])).toBe(true);
    expect([stillNeeded(two, []), stillNeeded(two, [ann]), stillNeeded(two, [ann, bob])]).toEqual([2, 1, 0]);
    expect([mayDecide(two, ann), mayDecide(two, zoe)]).toEqual([true, false]);
  });

  test('all of several groups: each brings its own part, and one who is in both brings both', () => {
    const both = {
      allOf: [...approverRule(['ann']).allOf, ...approverRule([], ['sec']).allOf],
      together: true as const,
    };
    expect([mayDecide(both, ann), mayDecide(both, zoe), mayDecide(both, bob)]).toEqual([true, true, false]);
    expect([isMet(both, [ann]), isMet(both, [ann, zoe]), isMet(both, [{ id: 'ann', groups: ['sec'] }])]).toEqual([
      false,
      true,
      true,
    ]);
  });

  test('INV-D1: a rule of the first release is decided by one who is in all of its lists, as it was then', () => {
    const both = { allOf: [...approverRule(['ann']).allOf, ...approverRule([], ['sec']).allOf] };
    expect([mayDecide(both, ann), mayDecide(both, zoe)]).toEqual([false, false]);
    expect(mayDecide(both, { id: 'ann', groups: ['sec'] })).toBe(true);
  });

  test('four eyes (E-4): who is excluded does not count, however often named', () => {
    const four = of(['ann', 'bob'], undefined, ['ann']);
    expect([mayDecide(four, ann), isMet(four, [ann]), isMet(four, [bob])]).toEqual([false, false, true]);
  });

  test('is wanted only who brings the rule nearer', () => {
    const both = { allOf: [...approverRule(['ann', 'bob']).allOf, ...approverRule([], ['sec']).allOf] };
    expect([isWanted(both, [ann], bob), isWanted(both, [ann], zoe)]).toEqual([false, true]);
  });

  test('one more never takes away what others have met, and a met rule needs nobody', () => {
    forAll(rule, fc.array(person, { maxLength: 4 }), person, (given, people, more) => {
      if (isMet(given, people)) expect(isMet(given, [...people, more])).toBe(true);
      if (isMet(given, people)) expect(stillNeeded(given, people)).toBe(0);
      if (isMet(given, [...people, more]) && !isMet(given, people)) {
        expect(mayDecide({ ...given, together: true }, more)).toBe(true);
        expect(isWanted(given, people, more)).toBe(true);
      }
    });
  });

  test('in words', () => {
    expect(describeRule(of(['ann', 'bob'], 2, ['ann']))).toBe('2 of ann or bob, not ann');
    const [first] = approverRule(['ann']).allOf;
    if (first === undefined) throw new Error('a rule has clauses');
    const wide = { allOf: [{ ...first, may: ['edit' as const], remember: ['call' as const, 'tool' as const] }] };
    expect(describeRule(wide)).toBe('ann, may edit, may remember call or tool');
  });
});

/** How a list of approvers becomes what a request carries (E-2, E-3). */
describe('a clause', () => {
  const tool = { server: 'mail', tool: 'send', annotations: undefined, serverTrusted: false };
  const approversOf = (organisation: PolicyInput, run?: PolicyInput) => {
    const verdict = judge({ organisation: Policy.parse(organisation), run }, tool, 'eve');
    return verdict.kind === 'ask' ? verdict.approvers : undefined;
  };

  test('E-3: that the acting user confirms is said as such, and is no four eyes', () => {
    expect(clauseOf('organisation', { onlyInitiator: true }, 'eve')).toEqual({
      layer: 'organisation',
      ids: ['eve'],
      groups: [],
    });
    expect(clauseOf('organisation', { ids: ['ann'], notInitiator: true }, 'eve')).toMatchObject({ not: ['eve'] });
  });

  test('INV-G4: whatever stands beside it, nobody but the initiator confirms; and it is refused where it is written', () => {
    // As a policy of a later version may hold it.
    expect(clauseOf('run', { onlyInitiator: true, ids: ['mallory'], groups: ['all'] }, 'eve')).toMatchObject({
      ids: ['eve'],
      groups: [],
    });
    for (const beside of [
      { ids: ['ann'] },
      { groups: ['ops'] },
      { need: 2 },
      { notInitiator: true },
      { escalate: { afterSeconds: 1, add: {} } },
    ])
      expect(ApproverList.safeParse({ onlyInitiator: true, ...beside }).error?.issues).toMatchObject([
        { path: ['onlyInitiator'] },
      ]);
    expect(ApproverList.safeParse({ onlyInitiator: true }).success).toBe(true);
  });

  test('E-3: whoever names others besides asks them as well', () => {
    const asked = approversOf({ approvers: { onlyInitiator: true } }, { approvers: { ids: ['ann'] } });
    expect(asked).toMatchObject({ allOf: [{ ids: ['eve'] }, { ids: ['ann'] }], together: true });
  });

  test("a run's own policy may leave out what is empty", () => {
    const later = clauseOf('run', { ids: ['ann'], escalate: { afterSeconds: 60, add: { groups: ['ops'] } } }, 'eve');
    expect(later).toMatchObject({ escalate: { afterSeconds: 60, add: { ids: [], groups: ['ops'] } } });
    const others = clauseOf('run', { ids: ['ann'], escalate: { afterSeconds: 60, replace: { ids: ['zoe'] } } }, 'eve');
    expect(others).toMatchObject({ escalate: { afterSeconds: 60, replace: { ids: ['zoe'], groups: [] } } });
  });

  test("F20: an escalation of a run's own layer makes nobody meet what the organisation asks for", () => {
    const asked = approversOf(
      { approvers: { ids: ['ann'] } },
      { approvers: { ids: ['bob'], escalate: { afterSeconds: 1, add: { ids: ['mallory'] } } } },
    );
    expect(asked?.allOf).toEqual([
      { layer: 'organisation', ids: ['ann'], groups: [] },
      { layer: 'run', ids: ['bob'], groups: [], escalate: { afterSeconds: 1, add: { ids: ['mallory'], groups: [] } } },
    ]);
  });

  test.each([
    ['both', { afterSeconds: 60, add: {}, replace: {} }],
    ['neither', { afterSeconds: 60 }],
    ['at once', { afterSeconds: 0, add: {} }],
  ])('an escalation that does %s is not valid', (_, escalate) => {
    expect(ApproverList.safeParse({ ids: ['ann'], escalate }).success).toBe(false);
  });
});

/** Who answers what is asked of a call that nobody was asked to approve. */
describe('who answers', () => {
  const ops = { layer: 'organisation', ids: [], groups: ['ops'] };
  const bob = { layer: 'run', ids: ['bob'], groups: [] };

  test.each([
    [
      'nobody is named: whoever started the run',
      {},
      undefined,
      [{ layer: 'default', ids: ['ann'], groups: [] }],
      false,
    ],
    ['the organisation names somebody', { approvers: { groups: ['ops'] } }, {}, [ops], false],
    ['both name somebody', { approvers: { groups: ['ops'] } }, { approvers: { ids: ['bob'] } }, [ops, bob], true],
  ])('%s', (_what, organisation, run, allOf, together) => {
    const { approvers } = answerersOf({ organisation, run }, 'ann');
    expect(approvers).toEqual({ allOf, ...(together ? { together: true } : {}) });
  });

  test.each([
    [{}, undefined, 86_400],
    [{ deadlineSeconds: 60 }, undefined, 60],
    [{}, { deadlineSeconds: 60 }, 60],
    [{ deadlineSeconds: 60 }, { deadlineSeconds: 600 }, 60],
  ])('the deadline is the earlier one: %p and %p', (organisation, run, seconds) => {
    expect(answerersOf({ organisation, run }, 'ann').deadlineSeconds).toBe(seconds);
  });
});

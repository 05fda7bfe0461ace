/** Who may decide depends on when they do (F-3, F20, INV-G2): to the millisecond, whatever a timer has done. */
import { describe, expect, test } from '@jest/globals';
import type { ApproverClause, ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import {
  describeRule,
  groupsOf,
  isMet,
  isStaged,
  mayDecide,
  ruleAt,
  stillNeeded,
} from '../../../../domain/policy/approvers.ts';
import { acceptEdit } from '../../../../domain/request/edit.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { askingOf, edit, shown } from '../../../support/builders/decision.ts';
import { askVerdict, judgement } from '../../../support/builders/judgement.ts';
import { POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { askedUnder, by, told } from '../../../support/builders/told.ts';

const HOUR = 3_600_000;
const AT = START + HOUR;
const leads = { layer: 'organisation' as const, ids: ['ann', 'bob'], groups: [] };
const directors = { ids: ['dora'], groups: ['directors'] };
const escalating =
  (escalate: NonNullable<ApproverClause['escalate']>) =>
  (over: Partial<ApproverClause> = {}): ApproverRule => ({ allOf: [{ ...leads, escalate, ...over }] });
const adding = escalating({ afterSeconds: 3_600, add: directors });
const replacing = escalating({ afterSeconds: 3_600, replace: directors });
const ask = (approvers: ApproverRule): Run => askedUnder(approvers, 86_400);
const say = (run: Run, id: string, at: number, kind: Decision['kind'] = 'approve', groups: string[] = []) =>
  told(run, by(id, run, kind, { approver: { id, groups }, until: '2026-01-03T00:00:00.000Z' }), at);

describe('those who are added may decide from that millisecond on, those who come in place of others decide alone', () => {
  const [added, two, instead] = [ask(adding()), ask(adding({ need: 2 })), ask(replacing())];
  const begun = say(two, 'ann', START).run;
  const agreed = say(ask(replacing({ need: 2 })), 'ann', AT - 1).run;
  const later = ask({ ...replacing(), extendableToSeconds: 999_999 });

  test.each<[string, Run, string, number, string, Decision['kind']?, string[]?]>([
    ['a director before', added, 'dora', AT - 1, 'APPROVER_NOT_ENTITLED'],
    ['a director then', added, 'dora', AT, 'approved'],
    ['one of their group', added, 'tom', AT, 'rejected', 'reject', ['directors']],
    ['a lead, where others are added', added, 'ann', AT, 'approved'],
    ['a lead who begins', two, 'ann', START, 'counted'],
    ['a director before, who would complete it', begun, 'dora', AT - 1, 'APPROVER_NOT_ENTITLED'],
    ['a director who completes it', begun, 'dora', AT, 'approved'],
    ['a director, after the lead took it back', say(begun, 'ann', AT, 'withdraw').run, 'dora', AT, 'counted'],
    ['a lead, before others come in their place', instead, 'ann', AT - 1, 'approved'],
    ['a lead, from then on', instead, 'ann', AT, 'APPROVER_NOT_ENTITLED'],
    ['a lead who would reject', instead, 'ann', AT, 'APPROVER_NOT_ENTITLED', 'reject'],
    ['a director, before their time', instead, 'dora', AT - 1, 'APPROVER_NOT_ENTITLED'],
    ['a director alone', instead, 'dora', AT, 'approved'],
    ['a director who finds what was agreed before', agreed, 'dora', AT, 'approved'],
    ['a lead who takes that back', agreed, 'ann', AT, 'withdrawn', 'withdraw'],
    ['a director whom four eyes leave out', ask(replacing({ not: ['dora'] })), 'dora', AT, 'APPROVER_NOT_ENTITLED'],
    ['a lead who postpones in time', later, 'ann', AT - 1, 'extended', 'extend'],
    ['a lead who postpones too late', later, 'ann', AT, 'APPROVER_NOT_ENTITLED', 'extend'],
    ['a director who postpones', later, 'dora', AT, 'extended', 'extend'],
  ])('%s', (_what, run, id, at, answer, kind = 'approve', groups = []) => {
    expect(say(run, id, at, kind, groups).answer).toBe(answer);
  });

  test('they are told of before they are heard, also where the timer comes later', () => {
    const { facts, run } = say(two, 'dora', AT);
    expect(facts.map(({ kind }) => kind)).toEqual(['request.escalated', 'decision.accepted']);
    expect(askingOf(run, 't1.c0').request.told).toBe(AT);
  });

  test('they keep the groups by which they count, and no others', () => {
    const { run } = say(two, 'tom', AT, 'approve', ['directors', 'chess']);
    expect(askingOf(run, 't1.c0').votes).toMatchObject([{ decision: { approver: { groups: ['directors'] } } }]);
  });

  test('INV-G2: a call that is approved is so by those of its time', () => {
    expect(callOf(say(added, 'dora', AT).run, 't1.c0')).toMatchObject({
      status: 'approved',
      consent: { made: { decision: { approver: { id: 'dora' } } } },
    });
  });
});

describe('a rule with later steps', () => {
  test('INV-G4: of which nobody is named, now or later, is met by nobody', () => {
    const none = { ids: [], groups: [] };
    const never: ApproverRule = { allOf: [{ layer: 'run', ...none, escalate: { afterSeconds: 1, replace: none } }] };
    expect([mayDecide(never, { id: 'ann', groups: [], after: 9_999 }), isMet(never, [])]).toEqual([false, false]);
    const later: ApproverRule = { allOf: [{ layer: 'run', ...none, escalate: { afterSeconds: 1, add: directors } }] };
    const dora = [999, 1_000].map((after) => mayDecide(later, { id: 'dora', groups: [], after }));
    expect(dora).toEqual([false, true]);
  });

  test('stands in the digest, so that a decision of before holds after', () => {
    const digests = [adding(), replacing(), { allOf: [leads] }].map((rule) => shown(ask(rule), 't1.c0').digest);
    expect(new Set(digests).size).toBe(3);
    const run = ask(adding({ need: 2 }));
    const escalated = say(say(run, 'ann', START).run, 'dora', AT, 'withdraw').run;
    expect(shown(escalated, 't1.c0')).toEqual(shown(run, 't1.c0'));
  });

  test('is told in words, before and after', () => {
    expect(describeRule(adding({ need: 2, not: ['bob'] }))).toBe(
      '2 of ann or bob, not bob, after 1 h also dora or group:directors',
    );
    expect(describeRule(replacing())).toBe('ann or bob, after 1 h only dora or group:directors');
    expect(describeRule(ruleAt(replacing(), HOUR))).toBe('dora or group:directors');
    expect(describeRule(ruleAt(adding(), HOUR - 1))).toBe(describeRule(adding()));
    const after = (afterSeconds: number) =>
      describeRule(adding({ escalate: { afterSeconds, add: { ids: [], groups: [] } } }));
    expect([61, 120, 5_400, 172_800].map(after)).toEqual(
      ['61 s', '2 min', '90 min', '2 d'].map((time) => `ann or bob, after ${time} also nobody`),
    );
  });

  test('is known by its groups and by being one', () => {
    expect([isStaged(adding()), isStaged({ allOf: [leads] })]).toEqual([true, false]);
    expect(groupsOf(adding({ groups: ['leads'] }))).toEqual(expect.arrayContaining(['leads', 'directors']));
    const dora = { id: 'dora', groups: [] };
    const needed = [dora, { ...dora, after: HOUR }].map((each) => stillNeeded(adding({ need: 2 }), [each]));
    expect(needed).toEqual([2, 1]);
  });
});

test('F23: who is asked later may change the arguments then, and agrees to them by that', () => {
  const approvers = adding({ may: ['edit'] });
  const run = ask(approvers);
  const decision = edit({ path: 'other' }, { ...shown(run, 't1.c0'), approver: { id: 'dora', groups: [] } });
  const as = { judgement: judgement({ verdict: askVerdict({ approvers }) }), policyVersion: POLICY_VERSION };
  const edited = [AT, AT - 1].map((at) => acceptEdit(run, askingOf(run, 't1.c0'), decision, as, runIds(), at));
  expect(edited).toMatchObject([{ ack: { status: 'approved' } }, { ack: { status: 'edited' } }]);
  // Whoever edits before it is their turn is refused at the door; they would count for nothing.
  expect(told(run, decision, AT - 1).answer).toBe('APPROVER_NOT_ENTITLED');
});

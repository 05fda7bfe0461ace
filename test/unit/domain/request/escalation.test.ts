/** Who may decide depends on when they do (F-3, F20, INV-G2): to the millisecond, whatever a timer has done. */
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import type { ApproverClause, ApproverRule } from '../../../../contracts/schemas/policy.ts';
import {
  describeRule,
  groupsOf,
  isMet,
  isStaged,
  mayDecide,
  ruleAt,
  stillNeeded,
} from '../../../../domain/policy/approvers.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { acceptEdit } from '../../../../domain/request/edit.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, extension, rejection, shown, withdrawal } from '../../../support/builders/decision.ts';
import { askVerdict, judgement } from '../../../support/builders/judgement.ts';
import { judgedRun, POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';

const HOUR = 3_600_000;
const AT = START + HOUR;
const leads = { layer: 'organisation' as const, ids: ['ann', 'bob'], groups: [] };
const directors = { ids: ['dora'], groups: ['directors'] };
const adding = (over: Partial<ApproverClause> = {}): ApproverRule => ({
  allOf: [{ ...leads, escalate: { afterSeconds: 3_600, add: directors }, ...over }],
});
const replacing = (over: Partial<ApproverClause> = {}): ApproverRule => ({
  allOf: [{ ...leads, escalate: { afterSeconds: 3_600, replace: directors }, ...over }],
});
const ask = (approvers: ApproverRule): Run =>
  judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers, deadlineSeconds: 86_400 }) }));
let ids = 0;

function say(
  run: Run,
  id: string,
  at: number,
  kind: Exclude<Decision['kind'], 'respond'> = 'approve',
  groups: string[] = [],
) {
  const over = { ...shown(run, 't1.c0'), decisionId: `d-${(ids += 1)}`, approver: { id, groups } };
  const make = { approve: approval, reject: rejection, withdraw: withdrawal, extend: extension };
  const decision = make[kind](over);
  const admission = admit(run, decision, runIds(), at);
  if (admission.kind === 'refuse') return { run, answer: admission.code, facts: [] };
  if (admission.kind === 'repeat') throw new Error('each has its own id');
  const { ack, run: next, facts } = accept(run, admission.state, decision, at);
  return { run: next, answer: ack.status, facts };
}

describe('those who are added', () => {
  test('may decide from that millisecond on, and those of before as well', () => {
    const run = ask(adding());
    expect(say(run, 'dora', AT - 1).answer).toBe('APPROVER_NOT_ENTITLED');
    expect(say(run, 'dora', AT).answer).toBe('approved');
    expect(say(run, 'tom', AT, 'reject', ['directors']).answer).toBe('rejected');
    expect(say(run, 'ann', AT).answer).toBe('approved');
  });

  test('complete what others have begun; who takes it back is not counted', () => {
    const run = ask(adding({ need: 2 }));
    const one = say(run, 'ann', START);
    expect(one.answer).toBe('counted');
    expect(say(one.run, 'dora', AT - 1).answer).toBe('APPROVER_NOT_ENTITLED');
    expect(say(one.run, 'dora', AT).answer).toBe('approved');
    const back = say(one.run, 'ann', AT, 'withdraw');
    expect(say(back.run, 'dora', AT).answer).toBe('counted');
  });

  test('are told of before they are heard, also where the timer comes later', () => {
    const { facts, run } = say(ask(adding({ need: 2 })), 'dora', AT);
    expect(facts.map(({ kind }) => kind)).toEqual(['request.escalated', 'decision.accepted']);
    expect(askingOf(run, 't1.c0').request.told).toBe(AT);
  });

  test('keep the groups by which they count, and no others', () => {
    const { run } = say(ask(adding({ need: 2 })), 'tom', AT, 'approve', ['directors', 'chess']);
    expect(askingOf(run, 't1.c0').votes).toMatchObject([{ decision: { approver: { groups: ['directors'] } } }]);
  });
});

describe('those who come in place of others', () => {
  test('decide alone from then on', () => {
    const run = ask(replacing());
    expect(say(run, 'ann', AT - 1).answer).toBe('approved');
    expect(say(run, 'ann', AT).answer).toBe('APPROVER_NOT_ENTITLED');
    expect(say(run, 'ann', AT, 'reject').answer).toBe('APPROVER_NOT_ENTITLED');
    expect(say(run, 'dora', AT - 1).answer).toBe('APPROVER_NOT_ENTITLED');
    expect(say(run, 'dora', AT).answer).toBe('approved');
  });

  test('find what was agreed before: it goes on counting, and may be taken back', () => {
    const { run } = say(ask(replacing({ need: 2 })), 'ann', AT - 1);
    expect(say(run, 'dora', AT).answer).toBe('approved');
    expect(say(run, 'ann', AT, 'withdraw').answer).toBe('withdrawn');
  });

  test('four eyes hold later as well', () => {
    const run = ask(replacing({ not: ['dora'] }));
    expect(say(run, 'dora', AT).answer).toBe('APPROVER_NOT_ENTITLED');
  });

  test('may postpone the deadline, and those of before may not any more', () => {
    const run = ask({ ...replacing(), extendableToSeconds: 999_999 });
    const later = (id: string, at: number) => {
      const decision = extension({
        ...shown(run, 't1.c0'),
        approver: { id, groups: [] },
        until: '2026-01-03T00:00:00.000Z',
      });
      const admission = admit(run, decision, runIds(), at);
      return admission.kind === 'refuse' ? admission.code : admission.kind;
    };
    expect([later('ann', AT - 1), later('ann', AT), later('dora', AT)]).toEqual([
      'accept',
      'APPROVER_NOT_ENTITLED',
      'accept',
    ]);
  });
});

describe('a rule with later steps', () => {
  test('INV-G4: of which nobody is named, now or later, is met by nobody', () => {
    const none = { ids: [], groups: [] };
    const never: ApproverRule = { allOf: [{ layer: 'run', ...none, escalate: { afterSeconds: 1, replace: none } }] };
    expect(mayDecide(never, { id: 'ann', groups: [], after: 9_999 })).toBe(false);
    expect(isMet(never, [])).toBe(false);
    const later: ApproverRule = { allOf: [{ layer: 'run', ...none, escalate: { afterSeconds: 1, add: directors } }] };
    expect(mayDecide(later, { id: 'dora', groups: [], after: 999 })).toBe(false);
    expect(mayDecide(later, { id: 'dora', groups: [], after: 1_000 })).toBe(true);
  });

  test('stands in the digest, so that a decision of before holds after', () => {
    const digestOf = (rule: ApproverRule) => shown(ask(rule), 't1.c0').digest;
    expect(digestOf(adding())).not.toBe(digestOf({ allOf: [leads] }));
    expect(digestOf(adding())).not.toBe(digestOf(replacing()));
    const run = ask(adding({ need: 2 }));
    const { run: escalated } = say(say(run, 'ann', START).run, 'dora', AT, 'withdraw');
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
    expect(stillNeeded(adding({ need: 2 }), [{ id: 'dora', groups: [] }])).toBe(2);
    expect(stillNeeded(adding({ need: 2 }), [{ id: 'dora', groups: [], after: HOUR }])).toBe(1);
  });

  test('INV-G2: a call that is approved is so by those of its time', () => {
    const { run } = say(ask(adding()), 'dora', AT);
    expect(callOf(run, 't1.c0')).toMatchObject({
      status: 'approved',
      consent: { made: { decision: { approver: { id: 'dora' } } } },
    });
  });
});

test('F23: who is asked later may change the arguments then, and agrees to them by that', () => {
  const rule = adding({ may: ['edit'] });
  const run = ask(rule);
  const over = { ...shown(run, 't1.c0'), arguments: { path: 'other' }, approver: { id: 'dora', groups: [] } };
  const decision = { ...approval(over), arguments: over.arguments };
  const as = { judgement: judgement({ verdict: askVerdict({ approvers: rule }) }), policyVersion: POLICY_VERSION };
  const edited = (at: number) => {
    const answer = acceptEdit(run, askingOf(run, 't1.c0'), decision, as, runIds(), at);
    return answer.kind === 'refuse' ? answer.code : answer.ack.status;
  };
  expect(edited(AT)).toBe('approved');
  // Whoever edits before it is their turn is refused at the door; they would count for nothing.
  expect(admit(run, decision, runIds(), AT - 1)).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
  expect(edited(AT - 1)).toBe('edited');
});

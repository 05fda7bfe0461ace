/** Postponing a deadline (F-4, INV-G2, INV-D3). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import {
  describeLapse,
  lapsedSince,
  MOST_EXTENSIONS,
  nextStep,
  provenDeadline,
  shownOf,
  tell,
  tellDue,
} from '../../../../domain/request/deadline.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { currentDetails, pendingAttributes, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, extension, shown } from '../../../support/builders/decision.ts';
import { approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';

describe('extensions', () => {
  /** An hour, which may become three. */
  const [HOUR, LATEST] = [3_600_000, START + 3 * 3_600_000];
  const DEADLINE = START + HOUR;
  const rule = { ...approverRule(['ann', 'bob', 'zoe']), extendableToSeconds: 3 * 3_600 };
  const ofTwo = { ...rule, allOf: rule.allOf.map((clause) => ({ ...clause, need: 2 })) };
  const asked = (approvers = rule): Run => judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers }) }));
  let ids = 0;

  function to(run: Run, until: number, id = 'ann'): Decision {
    const decisionId = `d-${(ids += 1)}`;
    return extension({
      ...shown(run, 't1.c0'),
      decisionId,
      until: new Date(until).toISOString(),
      approver: { id, groups: [] },
    });
  }

  function answerTo(run: Run, decision: Decision, now = START, endsAt?: number) {
    const admission = admit(run, decision, runIds(), now, endsAt);
    if (admission.kind === 'refuse') return { run, answer: admission.code, message: admission.message };
    if (admission.kind === 'repeat') return { run, answer: `again ${admission.ack.status}` };
    const { ack, run: next, facts } = accept(run, admission.state, decision, now);
    return { run: next, answer: ack.status, ack, facts };
  }

  describe('an extension', () => {
    test('postpones the deadline, and is no approval: digest and votes stay', () => {
      const run = asked(ofTwo);
      const vote = { ...approval({ ...shown(run, 't1.c0'), decisionId: 'v' }), approver: { id: 'bob', groups: [] } };
      const voted = answerTo(run, vote).run;
      const decision = to(run, LATEST);
      const {
        run: later,
        answer,
        ack,
        facts,
      } = answerTo(voted, { ...decision, comment: 'ill' } as Decision, START + 5);
      expect(answer).toBe('extended');
      expect(ack).toMatchObject({ decidedBy: 'ann', until: new Date(LATEST).toISOString() });
      expect(facts).toMatchObject([
        { kind: 'decision.accepted', decision: 'extend', until: new Date(LATEST).toISOString(), comment: 'ill' },
      ]);
      expect(askingOf(later, 't1.c0')).toMatchObject({ request: { deadline: LATEST, generation: 1 }, votes: [{}] });
      expect(shown(later, 't1.c0')).toEqual(shown(run, 't1.c0'));
      // What was said with it is in the ledger, and is not carried along.
      expect(JSON.stringify(later.calls)).not.toContain('ill');
      const last = { ...vote, decisionId: 'w', approver: { id: 'zoe', groups: [] } };
      expect(answerTo(later, last, LATEST - 1).answer).toBe('approved');
      expect(answerTo(later, last, LATEST).answer).toBe('DECISION_EXPIRED');
    });

    test('is shown to people: the deadline everywhere, and who postponed it', () => {
      const { run } = answerTo(asked(), to(asked(), LATEST));
      expect(currentDetails('waiting', run)).toContain('until 2026-01-01T03:00:00.000Z');
      expect(currentDetails('waiting', run)).toContain('postponed by ann');
      expect(pendingAttributes(run).nextDeadline).toEqual(new Date(LATEST));
      expect(pendingMemo(run, runIds()).nextDeadline).toBe('2026-01-01T03:00:00.000Z');
    });

    test('comes before the deadline, or it is too late', () => {
      expect(answerTo(asked(), to(asked(), LATEST), DEADLINE - 1).answer).toBe('extended');
      expect(answerTo(asked(), to(asked(), LATEST), DEADLINE).answer).toBe('DECISION_EXPIRED');
    });

    test('names a later deadline, and one that the rule permits, by a millisecond', () => {
      expect(answerTo(asked(), to(asked(), DEADLINE)).answer).toBe('DECISION_INVALID');
      expect(answerTo(asked(), to(asked(), DEADLINE + 1)).answer).toBe('extended');
      const tooFar = answerTo(asked(), to(asked(), LATEST + 1));
      expect(tooFar.answer).toBe('EXTENSION_FORBIDDEN');
      expect(tooFar.message).toContain('2026-01-01T03:00:00.000Z at the latest');
    });

    test('is refused where the policy does not permit it, with the reason', () => {
      const refusal = answerTo(askingRun(), to(askingRun(), LATEST));
      expect(refusal).toMatchObject({ answer: 'EXTENSION_FORBIDDEN', message: expect.stringContaining('lets nobody') });
    });

    test('does not reach beyond the run itself', () => {
      const refusal = answerTo(asked(), to(asked(), LATEST), START, LATEST - 1);
      expect(refusal).toMatchObject({
        answer: 'EXTENSION_FORBIDDEN',
        message: expect.stringContaining('wallClockSeconds'),
      });
      expect(answerTo(asked(), to(asked(), LATEST), START, LATEST).answer).toBe('extended');
    });

    test('is for those who may decide', () => {
      expect(answerTo(asked(), to(asked(), LATEST, 'mallory')).answer).toBe('APPROVER_NOT_ENTITLED');
      const fourEyes = { ...rule, allOf: rule.allOf.map((clause) => ({ ...clause, not: ['ann'] })) };
      expect(answerTo(asked(fourEyes), to(asked(fourEyes), LATEST)).answer).toBe('APPROVER_NOT_ENTITLED');
    });

    test('INV-D3: sent again it gets its first answer, and its id says one time only', () => {
      const decision = to(asked(), LATEST);
      const { run } = answerTo(asked(), decision);
      expect(answerTo(run, decision).answer).toBe('again extended');
      expect(answerTo(run, { ...decision, until: new Date(LATEST - 1).toISOString() } as Decision).answer).toBe(
        'DECISION_INVALID',
      );
    });

    test('is made twenty times at the most', () => {
      let run = asked();
      for (let times = 1; times <= MOST_EXTENSIONS; times += 1) run = answerTo(run, to(run, DEADLINE + times)).run;
      expect(askingOf(run, 't1.c0').request.extended?.by).toHaveLength(MOST_EXTENSIONS);
      expect(answerTo(run, to(run, LATEST)).answer).toBe('EXTENSION_FORBIDDEN');
    });

    test('of a call that is decided says who decided it', () => {
      const late = to(asked(), LATEST);
      const done = answerTo(asked(), approval(shown(asked(), 't1.c0'))).run;
      expect(callOf(done, 't1.c0')?.status).toBe('approved');
      expect(answerTo(done, late).answer).toBe('ALREADY_DECIDED');
    });
  });

  describe('the deadline that a dispatch believes', () => {
    const by = (until: number, decidedAt: number, over: object = {}) => ({
      decision: { ...to(asked(), until), ...over },
      decidedAt,
    });
    const claim = (...extensions: ReturnType<typeof by>[]) => ({ openedAt: START, deadline: DEADLINE, extensions });

    test('is the last one, where each was made in time by somebody who may', () => {
      expect(provenDeadline(rule, claim())).toBe(DEADLINE);
      expect(provenDeadline(approverRule(), claim())).toBe(DEADLINE);
      const twice = claim(by(DEADLINE + 10, DEADLINE - 1), by(LATEST, DEADLINE + 9));
      expect(provenDeadline(rule, twice)).toBe(LATEST);
    });

    test.each([
      ['made at the deadline', claim(by(LATEST, DEADLINE))],
      ['made after the one that it follows', claim(by(DEADLINE + 10, START), by(LATEST, DEADLINE + 10))],
      ['made before the request opened', claim(by(LATEST, START - 1))],
      ['further than the rule permits', claim(by(LATEST + 1, START))],
      ['that shortens it', claim(by(DEADLINE - 1, START))],
      ['by a stranger', claim(by(LATEST, START, { approver: { id: 'mallory', groups: [] } }))],
      ['that is an approval', claim(by(LATEST, START, { kind: 'approve' }))],
      ['to no time', claim(by(LATEST, START, { until: 'never' }))],
      ['at no time', claim(by(LATEST, Number.NaN))],
      ['of a request that opened at no time', { ...claim(by(LATEST, START)), openedAt: Number.NaN }],
      ['of a deadline that is no time', { ...claim(by(LATEST, START)), deadline: Number.NaN }],
    ])('is none with an extension %s', (_, times) => {
      expect(provenDeadline(rule, times)).toBeUndefined();
    });

    test('is none where the rule permits no extension', () => {
      expect(provenDeadline(approverRule(), claim(by(LATEST, START)))).toBeUndefined();
    });

    test('INV-G1: whatever a run accepts is believed, and it is the deadline of the run', () => {
      const step = fc.record({
        after: fc.integer({ min: 0, max: HOUR }),
        further: fc.integer({ min: -1, max: 4 * HOUR }),
      });
      fc.assert(
        fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
          let run = asked();
          let now = START;
          for (const { after, further } of steps) {
            now += after;
            run = answerTo(run, to(run, now + further), now).run;
          }
          const { request } = askingOf(run, 't1.c0');
          const { from = request.deadline, by: extensions = [] } = request.extended ?? {};
          expect(provenDeadline(rule, { openedAt: request.openedAt, deadline: from, extensions })).toBe(
            request.deadline,
          );
          expect(request.deadline).toBeLessThanOrEqual(LATEST);
        }),
      );
    });
  });
});

/** Reminders and escalations: told once, in time, and shown (F-3, F-4, F-7, INV-D3). */
describe('reminders and escalations', () => {
  const clause = (group: string, afterSeconds: number) => ({
    layer: 'organisation' as const,
    ids: ['ann'],
    groups: [group],
    escalate: { afterSeconds, replace: { ids: [], groups: [`${group}-heads`] } },
  });
  /** Reminded after 10 s; one clause escalates after 20, the other after 30; the deadline is at 60. */
  const rule: ApproverRule = { allOf: [clause('ops', 20), clause('law', 30)], together: true, remindAfterSeconds: 10 };
  const asked = (approvers = rule, deadlineSeconds = 60): Run =>
    judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers, deadlineSeconds }) }));
  const at = (seconds: number): number => START + seconds * 1_000;
  const kindsOf = (facts: readonly { readonly kind: string }[]): string[] => facts.map(({ kind }) => kind);
  const requestOf = (run: Run) => askingOf(run, 't1.c0').request;

  describe('the next step', () => {
    test('is the nearest that was not told, and none after the last', () => {
      let run = asked();
      const seen: (string | undefined)[] = [];
      for (let times = 0; times < 4; times += 1) {
        const step = nextStep(requestOf(run));
        seen.push(step === undefined ? undefined : `${step.kind} ${(step.at - START) / 1_000}`);
        run = tell(run, 't1.c0', step?.at ?? START).run;
      }
      expect(seen).toEqual(['reminder 10', 'escalation 20', 'escalation 30', undefined]);
    });

    test('is none where nothing was planned, or only for the deadline and later', () => {
      expect(nextStep(requestOf(asked({ allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] })))).toBeUndefined();
      expect(nextStep(requestOf(asked(rule, 10)))).toBeUndefined();
      expect(nextStep(requestOf(asked(rule, 11)))).toMatchObject({ at: at(10) });
    });
  });

  describe('telling', () => {
    test('says each thing once, at its time and not a millisecond before', () => {
      expect(tell(asked(), 't1.c0', at(10) - 1).facts).toEqual([]);
      const first = tell(asked(), 't1.c0', at(10));
      expect(first.facts).toEqual([
        { kind: 'request.reminded', callId: 't1.c0', generation: 1, deadline: '2026-01-01T00:01:00.000Z' },
      ]);
      expect(tell(first.run, 't1.c0', at(19)).facts).toEqual([]);
      // Carried to the next execution, as JSON.
      const carried = JSON.parse(JSON.stringify(first.run)) as Run;
      expect(kindsOf(tell(carried, 't1.c0', at(40)).facts)).toEqual(['request.escalated', 'request.escalated']);
    });

    test('names whom it waits on from then, and what is still to come', () => {
      const [, escalated] = tell(asked(), 't1.c0', at(20)).facts;
      expect(escalated).toMatchObject({
        kind: 'request.escalated',
        approvers: {
          allOf: [
            { ids: [], groups: ['ops-heads'] },
            { ids: ['ann'], groups: ['law'], escalate: { afterSeconds: 30 } },
          ],
        },
      });
    });

    test('says nothing at the deadline and after it', () => {
      expect(kindsOf(tellDue(askingOf(asked(rule, 20), 't1.c0'), at(99)).facts)).toEqual(['request.reminded']);
    });

    test('two clauses that escalate at the same time do so once', () => {
      const same = { allOf: [clause('ops', 20), clause('law', 20)], together: true as const };
      expect(kindsOf(tell(asked(same), 't1.c0', at(20)).facts)).toEqual(['request.escalated']);
    });

    test('is about calls that wait', () => {
      const gone = ended(asked(), 't1.c0', outcomes().cancelled).run;
      expect(tell(gone, 't1.c0', at(20))).toEqual({ run: gone, facts: [] });
    });

    test('begins anew where the call is asked again', () => {
      const run = tell(asked(), 't1.c0', at(10)).run;
      const one = { ...approval(shown(run, 't1.c0')), approver: { id: 'ann', groups: [] } };
      const sent = dispatched(accept(run, askingOf(run, 't1.c0'), one, at(11)).run, 't1.c0')?.run ?? run;
      const reopen = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'm' } as const;
      const again = askedAgain(
        sent,
        't1.c0',
        reopen,
        runIds(),
        { approvers: initiatorRule('a'), deadlineSeconds: 60 },
        at(100),
      ).run;
      expect(nextStep(requestOf(again))).toEqual({ kind: 'reminder', at: at(110) });
    });
  });

  /** As a browser shows it. */
  function plainDetails(run: Run): string {
    return currentDetails('waiting', run).replaceAll('&#58;', ':').replaceAll('&#45;', '-');
  }

  describe('what people see', () => {
    test('before, nothing of it; the rule says what will come', () => {
      expect(shownOf(requestOf(asked()))).toEqual({ approvers: rule });
      expect(plainDetails(asked())).toMatch(/who: .*after 20 s only group:ops-heads/);
      expect(pendingMemo(asked(), runIds()).requests[0]).not.toHaveProperty('reminded');
      expect(pendingAttributes(asked()).approverGroups).toEqual(['ops', 'law']);
    });

    test('afterwards, that it was reminded, since when others are asked, and who by now', () => {
      const { run } = tell(asked(), 't1.c0', at(20));
      expect(shownOf(requestOf(run))).toMatchObject({ remindedAt: at(10), escalatedAt: at(20) });
      const details = plainDetails(run);
      expect(details).toContain('reminded at 2026-01-01T00:00:10.000Z');
      expect(details).toContain('others are asked since 2026-01-01T00:00:20.000Z');
      expect(details).toMatch(/who: group:ops-heads and ann or group:law, after 30 s only group:law-heads/);
      expect(pendingMemo(run, runIds()).requests).toMatchObject([{ reminded: true }]);
      expect(pendingAttributes(run).approverGroups).toEqual(['ops-heads', 'law']);
      expect(pendingAttributes(tell(run, 't1.c0', at(30)).run).approverGroups).toEqual(['ops-heads', 'law-heads']);
    });
  });
});

/** An approval holds for a while (F-6): which is too long ago is seen before the call is sent. */
describe('how long an approval holds', () => {
  const within = (validForSeconds: number) => ({ ...approverRule(), validForSeconds });

  test('one millisecond before its end it holds, at its end it does not', () => {
    expect(lapsedSince(START, START + 59_999, within(60))).toBeUndefined();
    expect(lapsedSince(START, START + 60_000, within(60))).toBe(START + 60_000);
    expect(lapsedSince(START, START + 1e12, approverRule())).toBeUndefined();
  });

  test('of the rule that was shown and the one of now the shorter counts', () => {
    expect(lapsedSince(START, START + 30_000, within(60), within(30))).toBe(START + 30_000);
    expect(lapsedSince(START, START + 30_000, within(30), within(60))).toBe(START + 30_000);
    expect(lapsedSince(START, START + 30_000, approverRule(), within(30))).toBe(START + 30_000);
  });

  test('people read until when it held', () => {
    expect(describeLapse(START)).toContain('2026-01-01T00:00:00.000Z');
  });

  test('INV-G1: an approval that has lapsed before it was sent is asked again, with another digest', () => {
    const run = askingRun();
    const approved: Run = accept(run, askingOf(run, 't1.c0'), approval(shown(run, 't1.c0')), START).run;
    const lapse = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: describeLapse(START) } as const;
    const fallback = { approvers: initiatorRule('ann'), deadlineSeconds: 60 };
    const { run: again, facts } = askedAgain(approved, 't1.c0', lapse, runIds(), fallback, START + 1);
    expect(callOf(again, 't1.c0')).toMatchObject({
      status: 'waiting-for-consent',
      request: { generation: 2, deadline: START + 60_001 },
    });
    expect(facts).toMatchObject([{ kind: 'request.opened', because: expect.stringContaining('APPROVAL_LAPSED') }]);
    expect(shown(again, 't1.c0').digest).not.toBe(shown(run, 't1.c0').digest);
  });
});

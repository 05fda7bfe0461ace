/** Deadlines: postponed, reminded of, escalated, and how long an approval holds (F-3, F-4, F-6, F-7, INV-G1, INV-G2, INV-D3). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import {
  describeLapse,
  grantEnd,
  grantEnds,
  lapsedSince,
  MOST_EXTENSIONS,
  nextStep,
  provenDeadline,
  shownOf,
  tell,
  tellDue,
  withGrantEnd,
} from '../../../../domain/request/deadline.ts';
import { requestOpenedFact } from '../../../../domain/request/digest.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { listingId } from '../../../../domain/run/toolset.ts';
import { callOf, proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { currentDetails, pendingAttributes, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { approverRule, clauseFor } from '../../../support/builders/judgement.ts';
import { saidFact } from '../../../support/builders/ledger.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { flyingRun } from '../../../support/builders/pause.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';
import { askedUnder, by, told } from '../../../support/builders/told.ts';
import { forAll } from '../../../support/for-all.ts';

const HOUR = 3_600_000;
const DEADLINE = START + HOUR;
const FALLBACK = { approvers: approverRule(), deadlineSeconds: 60 };
const requestOf = (run: Run) => askingOf(run, 't1.c0').request;
const iso = (at: number): string => new Date(at).toISOString();

describe('an extension', () => {
  /** An hour, which may become three. */
  const LATEST = START + 3 * HOUR;
  const rule: ApproverRule = { ...approverRule(['ann', 'bob', 'zoe']), extendableToSeconds: 3 * 3_600 };
  const each = (over: object): ApproverRule => ({
    ...rule,
    allOf: rule.allOf.map((clause) => ({ ...clause, ...over })),
  });
  const asked = askedUnder(rule);
  const to = (run: Run, until: number, id = 'ann'): Decision => by(id, run, 'extend', { until: iso(until) });
  const postponing = to(asked, LATEST);
  const postponed = told(asked, postponing).run;

  test('postpones the deadline, and is no approval: digest and votes stay', () => {
    const run = askedUnder(each({ need: 2 }));
    const voted = told(run, by('bob', run)).run;
    const decision = by('ann', run, 'extend', { until: iso(LATEST), comment: 'ill' });
    const { run: later, answer, facts } = told(voted, decision, START + 5);
    expect(answer).toBe('extended');
    expect(later.answered.at(-1)?.ack).toMatchObject({ decidedBy: 'ann', until: iso(LATEST) });
    expect(facts).toMatchObject([
      { kind: 'decision.accepted', decision: 'extend', until: iso(LATEST), comment: 'ill' },
    ]);
    expect(askingOf(later, 't1.c0')).toMatchObject({ request: { deadline: LATEST, generation: 1 }, votes: [{}] });
    expect(shown(later, 't1.c0')).toEqual(shown(run, 't1.c0'));
    // What was said with it is in the ledger, and is not carried along.
    expect(JSON.stringify(later.calls)).not.toContain('ill');
    const last = [LATEST - 1, LATEST].map((at) => told(later, by('zoe', later), at).answer);
    expect(last).toEqual(['approved', 'DECISION_EXPIRED']);
  });

  test('is shown to people: the deadline everywhere, and who postponed it', () => {
    expect(currentDetails('waiting', postponed)).toMatch(/until 2026-01-01T03:00:00\.000Z[^]*postponed by ann/);
    expect(pendingAttributes(postponed).nextDeadline).toEqual(new Date(LATEST));
    expect(pendingMemo(postponed, runIds()).nextDeadline).toBe('2026-01-01T03:00:00.000Z');
  });

  const fourEyes = askedUnder(each({ not: ['ann'] }));
  const approved = told(asked, by('ann', asked)).run;
  const twenty = Array.from({ length: MOST_EXTENSIONS }, (_, index) => DEADLINE + index + 1).reduce(
    (run, until) => told(run, to(run, until)).run,
    asked,
  );
  test.each<[string, Run, Decision, number, string, string?]>([
    ['before the deadline it is taken', asked, postponing, DEADLINE - 1, 'extended'],
    ['at the deadline it is too late', asked, postponing, DEADLINE, 'DECISION_EXPIRED'],
    ['it names a later deadline', asked, to(asked, DEADLINE), START, 'DECISION_INVALID'],
    ['by a millisecond', asked, to(asked, DEADLINE + 1), START, 'extended'],
    [
      'which the rule permits',
      asked,
      to(asked, LATEST + 1),
      START,
      'EXTENSION_FORBIDDEN',
      '03:00:00.000Z at the latest',
    ],
    ['not without such a rule', askingRun(), to(askingRun(), LATEST), START, 'EXTENSION_FORBIDDEN', 'lets nobody'],
    ['not by strangers', asked, to(asked, LATEST, 'mallory'), START, 'APPROVER_NOT_ENTITLED'],
    ['nor by whom four eyes leave out', fourEyes, to(fourEyes, LATEST), START, 'APPROVER_NOT_ENTITLED'],
    ['INV-D3: sent again it gets its first answer', postponed, postponing, START, 'again extended'],
    [
      'INV-D3: its id says one time only',
      postponed,
      { ...postponing, until: iso(LATEST - 1) } as Decision,
      START,
      'DECISION_INVALID',
    ],
    ['so often', twenty, to(twenty, LATEST), START, 'EXTENSION_FORBIDDEN'],
    ['not where the call is decided', approved, to(asked, LATEST), START, 'ALREADY_DECIDED'],
  ])('%s', (_what, run, decision, at, expected, words = '') => {
    const { answer, message = '' } = told(run, decision, at);
    expect(answer).toBe(expected);
    expect(message).toContain(words);
  });

  test('does not reach beyond the run itself', () => {
    expect(told(asked, to(asked, LATEST), START, LATEST - 1)).toMatchObject({
      answer: 'EXTENSION_FORBIDDEN',
      message: expect.stringContaining('wallClockSeconds'),
    });
    expect(told(asked, to(asked, LATEST), START, LATEST).answer).toBe('extended');
    expect(requestOf(twenty).extended?.by).toHaveLength(20);
  });

  describe('as a dispatch believes it', () => {
    const proof = (until: number, decidedAt: number, over: object = {}) => ({
      decision: { ...to(asked, until), ...over },
      decidedAt,
    });
    const claim = (...extensions: ReturnType<typeof proof>[]) => ({ openedAt: START, deadline: DEADLINE, extensions });
    const right = claim(proof(LATEST, START));

    test('the deadline is the last one, where each was made in time by somebody who may', () => {
      expect([rule, approverRule()].map((each_) => provenDeadline(each_, claim()))).toEqual([DEADLINE, DEADLINE]);
      const twice = claim(proof(DEADLINE + 10, DEADLINE - 1), proof(LATEST, DEADLINE + 9));
      expect(provenDeadline(rule, twice)).toBe(LATEST);
      expect(provenDeadline(approverRule(), right)).toBeUndefined();
    });

    test.each([
      ['made at the deadline', claim(proof(LATEST, DEADLINE))],
      ['made after the one that it follows', claim(proof(DEADLINE + 10, START), proof(LATEST, DEADLINE + 10))],
      ['made before the request opened', claim(proof(LATEST, START - 1))],
      ['further than the rule permits', claim(proof(LATEST + 1, START))],
      ['that shortens it', claim(proof(DEADLINE - 1, START))],
      ['by a stranger', claim(proof(LATEST, START, { approver: { id: 'mallory', groups: [] } }))],
      ['that is an approval', claim(proof(LATEST, START, { kind: 'approve' }))],
      ['to no time', claim(proof(LATEST, START, { until: 'never' }))],
      ['at no time', claim(proof(LATEST, Number.NaN))],
      ['of a request that opened at no time', { ...right, openedAt: Number.NaN }],
      ['of a deadline that is no time', { ...right, deadline: Number.NaN }],
    ])('there is none with an extension %s', (_, times) => {
      expect(provenDeadline(rule, times)).toBeUndefined();
    });

    test('INV-G1: whatever a run accepts is believed, and it is the deadline of the run', () => {
      const step = fc.record({
        after: fc.integer({ min: 0, max: HOUR }),
        further: fc.integer({ min: -1, max: 4 * HOUR }),
      });
      forAll(fc.array(step, { maxLength: 8 }), (steps) => {
        let run = asked;
        let now = START;
        for (const { after, further } of steps) {
          now += after;
          ({ run } = told(run, to(run, now + further), now));
        }
        const { deadline, openedAt, extended } = requestOf(run);
        const { from = deadline, by: extensions = [] } = extended ?? {};
        expect(provenDeadline(rule, { openedAt, deadline: from, extensions })).toBe(deadline);
        expect(deadline).toBeLessThanOrEqual(LATEST);
      });
    });
  });
});

describe('a reminder or escalation', () => {
  const clause = (group: string, afterSeconds: number) => {
    const escalate = { afterSeconds, replace: { ids: [], groups: [`${group}-heads`] } };
    return clauseFor(['ann'], { groups: [group], escalate });
  };
  /** Reminded after 10 s; one clause escalates after 20, the other after 30; the deadline is at 60. */
  const rule: ApproverRule = { allOf: [clause('ops', 20), clause('law', 30)], together: true, remindAfterSeconds: 10 };
  const asked = askedUnder(rule, 60);
  const at = (seconds: number): number => START + seconds * 1_000;
  const kindsOf = (facts: readonly { readonly kind: string }[]): string[] => facts.map(({ kind }) => kind);

  test('comes next that is the nearest and was not told, and none after the last', () => {
    let run = asked;
    const seen: (string | undefined)[] = [];
    for (let times = 0; times < 4; times += 1) {
      const step = nextStep(requestOf(run));
      seen.push(step === undefined ? undefined : `${step.kind} ${(step.at - START) / 1_000}`);
      run = tell(run, 't1.c0', step?.at ?? START).run;
    }
    expect(seen).toEqual(['reminder 10', 'escalation 20', 'escalation 30', undefined]);
  });

  test('comes not where none was planned, or only for the deadline and later', () => {
    const unplanned = askedUnder({ allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] }, 60);
    const next = [unplanned, askedUnder(rule, 10), askedUnder(rule, 11)].map((run) => nextStep(requestOf(run))?.at);
    expect(next).toEqual([undefined, undefined, at(10)]);
  });

  test('is said once, at its time and not a millisecond before', () => {
    expect(tell(asked, 't1.c0', at(10) - 1).facts).toEqual([]);
    const first = tell(asked, 't1.c0', at(10));
    expect(first.facts).toEqual([
      { kind: 'request.reminded', callId: 't1.c0', generation: 1, deadline: '2026-01-01T00:01:00.000Z' },
    ]);
    expect(tell(first.run, 't1.c0', at(19)).facts).toEqual([]);
    // Carried to the next execution, as JSON.
    const carried = JSON.parse(JSON.stringify(first.run)) as Run;
    expect(kindsOf(tell(carried, 't1.c0', at(40)).facts)).toEqual(['request.escalated', 'request.escalated']);
  });

  test('names whom it waits on from then, and what is still to come', () => {
    const [, escalated] = tell(asked, 't1.c0', at(20)).facts;
    const law = { ids: ['ann'], groups: ['law'], escalate: { afterSeconds: 30 } };
    const allOf = [{ ids: [], groups: ['ops-heads'] }, law];
    expect(escalated).toMatchObject({ kind: 'request.escalated', approvers: { allOf } });
  });

  test('is said neither at the deadline nor of a call that does not wait, and of two clauses at one time once', () => {
    expect(kindsOf(tellDue(askingOf(askedUnder(rule, 20), 't1.c0'), at(99)).facts)).toEqual(['request.reminded']);
    const same = askedUnder({ allOf: [clause('ops', 20), clause('law', 20)], together: true }, 60);
    expect(kindsOf(tell(same, 't1.c0', at(20)).facts)).toEqual(['request.escalated']);
    const gone = ended(asked, 't1.c0', outcomes().cancelled).run;
    expect(tell(gone, 't1.c0', at(20))).toEqual({ run: gone, facts: [] });
  });

  test('begins anew where the call is asked again', () => {
    const { run } = tell(asked, 't1.c0', at(10));
    const approved = told(run, by('ann', run), at(11)).run;
    const sent = dispatched(approved, 't1.c0')?.run ?? run;
    const reopen = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'm' } as const;
    const again = askedAgain(sent, 't1.c0', reopen, runIds(), FALLBACK, at(100)).run;
    expect(nextStep(requestOf(again))).toEqual({ kind: 'reminder', at: at(110) });
  });

  /** As a browser shows it. */
  const plainDetails = (run: Run): string =>
    currentDetails('waiting', run).replaceAll('&#58;', ':').replaceAll('&#45;', '-');

  test('is not seen before; the rule says what will come', () => {
    expect(shownOf(requestOf(asked))).toEqual({ approvers: rule });
    expect(plainDetails(asked)).toMatch(/who: .*after 20 s only anybody in ops-heads/);
    expect(pendingMemo(asked, runIds()).requests[0]).not.toHaveProperty('reminded');
    expect(pendingAttributes(asked).approvers).toEqual(['id:ann', 'group:ops', 'group:law']);
  });

  test('is seen afterwards: that it was reminded, since when others are asked, and who by now', () => {
    const { run } = tell(asked, 't1.c0', at(20));
    expect(shownOf(requestOf(run))).toMatchObject({ remindedAt: at(10), escalatedAt: at(20) });
    const details = plainDetails(run);
    expect(details).toContain('reminded at 2026-01-01T00:00:10.000Z');
    expect(details).toContain('others are asked since 2026-01-01T00:00:20.000Z');
    expect(details).toMatch(
      /who: anybody in ops-heads, and also ann or anybody in law &#40;after 30 s only anybody in law-heads/,
    );
    expect(pendingMemo(run, runIds()).requests).toMatchObject([{ reminded: true }]);
    const groups = [run, tell(run, 't1.c0', at(30)).run].map((each) => pendingAttributes(each).approvers);
    expect(groups).toEqual([
      ['group:ops-heads', 'id:ann', 'group:law'],
      ['group:ops-heads', 'group:law-heads'],
    ]);
  });
});

describe('an approval', () => {
  const within = (validForSeconds: number) => ({ ...approverRule(), validForSeconds });

  test.each<[string, number, ApproverRule[], number | undefined]>([
    ['holds until its end', 59_999, [within(60)], undefined],
    ['does not hold at its end', 60_000, [within(60)], START + 60_000],
    ['holds where nobody says how long', 1e12, [approverRule()], undefined],
    ['holds for the shorter time: of the rule of now', 30_000, [within(60), within(30)], START + 30_000],
    ['holds for the shorter time: of the rule that was shown', 30_000, [within(30), within(60)], START + 30_000],
    ['holds as the rule of now says alone', 30_000, [approverRule(), within(30)], START + 30_000],
  ])('%s', (_what, after, [rule = approverRule(), ...now], since) => {
    expect(lapsedSince(START, START + after, rule, ...now)).toBe(since);
  });

  test('INV-G1: that has lapsed before it was sent is asked again, with another digest; people read until when it held', () => {
    expect(describeLapse(START)).toContain('2026-01-01T00:00:00.000Z');
    const run = askingRun();
    const approved = told(run, approval(shown(run, 't1.c0'))).run;
    const lapse = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: describeLapse(START) } as const;
    const { run: again, facts } = askedAgain(approved, 't1.c0', lapse, runIds(), FALLBACK, START + 1);
    const request = { generation: 2, deadline: START + 60_001 };
    expect(callOf(again, 't1.c0')).toMatchObject({ status: 'waiting-for-consent', request });
    expect(facts).toMatchObject([{ kind: 'request.opened', because: expect.stringContaining('APPROVAL_LAPSED') }]);
    expect(shown(again, 't1.c0').digest).not.toBe(shown(run, 't1.c0').digest);
  });
});

/** A grant that a request outlives is told where the request opens (F13). */
describe('a grant that ends before the deadline', () => {
  const AT = new Date(START + 1_000).toISOString();
  const run = askingRun();
  const { server } = askingOf(run, 't1.c0').judgement.target;
  const { deadline } = askingOf(run, 't1.c0').request;
  const tools = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'x' };
  const ending = (at?: string, of: Run = run) => ({
    run: of,
    toolset: [{ server, tools, ...defined({ grantExpiresAt: at }) }],
  });

  /** A grant that was given for that call, or list. */
  function regranted(callId: string): Run {
    const answer = { kind: 'grant', callId, grant: { server, ref: 'x' } };
    const given = { answer, request: { about: { server } } };
    // Sound: all that is read of it.
    return { ...run, grants: [given] } as unknown as Run;
  }

  test('one that ends before the deadline is told, one that does not is not', () => {
    expect(grantEnd(ending(AT), server, deadline)).toEqual({ grantExpiresAt: AT });
    expect(grantEnd(ending(AT), server, START + 1_000)).toEqual({});
    expect(grantEnd(ending(), server, deadline)).toEqual({});
    expect(grantEnd(ending(AT), 'another', deadline)).toEqual({});
    expect(grantEnd(ending('no time'), server, deadline)).toEqual({});
  });

  test('one that took the place of the listed one is of an unknown end; one that was given for the list is the listed one', () => {
    expect(grantEnd(ending(AT, regranted('t1.c0')), server, deadline)).toEqual({});
    expect(grantEnd(ending(AT, regranted(listingId(0))), server, deadline)).toEqual({ grantExpiresAt: AT });
  });

  test('the state names each open request that it concerns', () => {
    expect(grantEnds(ending(AT))).toEqual({ grantEnds: [{ callId: 't1.c0', server, at: AT }] });
    expect(grantEnds(ending())).toEqual({});
    expect(grantEnds(ending(AT, flyingRun()))).toEqual({});
  });

  test('the ledger has it with the request, and with nothing else', () => {
    const opened = requestOpenedFact(askingOf(run, 't1.c0'), runIds());
    expect(withGrantEnd(opened, ending(AT))).toEqual({ ...opened, grantExpiresAt: AT });
    expect(withGrantEnd(opened, ending())).toEqual(opened);
    expect(withGrantEnd(saidFact(), ending(AT))).toEqual(saidFact());
    // Of a call that is not known, or not judged, nothing is said.
    const unjudged = proposed(startRun(START), identicalCalls(1), { inputTokens: 0, outputTokens: 0 }).run;
    expect(callOf(unjudged, 't1.c0')?.status).toBe('proposed');
    for (const other of [startRun(START), unjudged]) expect(withGrantEnd(opened, ending(AT, other))).toEqual(opened);
  });
});

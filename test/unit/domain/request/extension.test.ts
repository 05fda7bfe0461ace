/** Postponing a deadline (F-4, INV-G2, INV-D3). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { MOST_EXTENSIONS, provenDeadline } from '../../../../domain/request/deadline.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { currentDetails, pendingAttributes, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, extension, shown } from '../../../support/builders/decision.ts';
import { approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';

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
    const { run: later, answer, ack, facts } = answerTo(voted, { ...decision, comment: 'ill' } as Decision, START + 5);
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
        expect(provenDeadline(rule, { openedAt: request.openedAt, deadline: from, extensions })).toBe(request.deadline);
        expect(request.deadline).toBeLessThanOrEqual(LATEST);
      }),
    );
  });
});

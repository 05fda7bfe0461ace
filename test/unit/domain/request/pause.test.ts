/** Requests about something else than consent: how a call comes to wait, which answers count (INV-G2, INV-X1, INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { admit, voterOf } from '../../../../domain/request/decision.ts';
import { digestOf } from '../../../../domain/request/digest.ts';
import { admitAnswer, pausedFor, remembering, resumed } from '../../../../domain/request/pause.ts';
import { attemptsOf } from '../../../../domain/request/throttling.ts';
import { dispatched, ended, reopened } from '../../../../domain/request/transitions.ts';
import { heard, interrupted } from '../../../../domain/run/message-queue.ts';
import { callOf, MOST_PAUSES_ANSWERED, sent } from '../../../../domain/state/run.ts';
import { approval, say, shown } from '../../../support/builders/decision.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import {
  flyingRun,
  outcomePause,
  pausedOf,
  pausedRun,
  pausing,
  recorded,
  retry,
  UNSURE,
} from '../../../support/builders/pause.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';

describe('a call whose outcome is not known', () => {
  test('waits under a request of its own, with what is known and a new digest', () => {
    const { run, facts } = pausedFor(flyingRun(), CALL, outcomePause(), pausing({ because: 'X: y' }), runIds());
    const state = pausedOf(run);
    expect(state).toMatchObject({
      status: 'waiting-for-answer',
      attempts: 1,
      unsure: UNSURE,
      request: { generation: 1, about: { kind: 'outcome' }, because: 'X: y', deadline: START + 3_600_000 },
    });
    expect(facts).toMatchObject([{ kind: 'request.opened', about: { kind: 'outcome' }, because: 'X: y' }]);
    const consent = { ...state, request: { ...state.request, about: undefined } };
    // Sound: a request of consent has no such field; the digest leaves it out.
    expect(digestOf(consent as unknown as typeof state, runIds())).not.toBe(digestOf(state, runIds()));
  });

  test('keeps the consent with which it left, under a generation above that of it', () => {
    expect(pausedOf(pausedRun('approved'))).toMatchObject({
      request: { generation: 2 },
      consent: { request: { generation: 1 }, made: { decision: { decisionId: 'd-0' } } },
    });
  });

  test('a pause of a call that did not run makes nobody unsure of it', () => {
    const { unsure: _, ...sure } = pausing();
    expect(pausedOf(pausedFor(flyingRun(), CALL, outcomePause(), sure, runIds()).run)).not.toHaveProperty('unsure');
  });

  test('is not asked where nothing is under way', () => {
    const run = askingRun();
    expect(pausedFor(run, CALL, outcomePause(), pausing(), runIds())).toEqual({ run, facts: [] });
  });

  test.each([
    ['expired', { kind: 'expired', deadline: '2026-01-01T01:00:00.000Z' }],
    ['cancelled', { kind: 'cancelled', reason: 'stopped' }],
  ] as const)('%s without an answer, it is unknown, and nothing is sent (INV-X1)', (status, outcome) => {
    const about = outcomePause({ token: { strategy: 'none' } });
    const { run, facts } = ended(pausedFor(flyingRun('approved'), CALL, about, pausing(), runIds()).run, CALL, outcome);
    expect(callOf(run, CALL)).toMatchObject({ status: 'settled', outcome: UNSURE, pause: { status } });
    expect(facts).toMatchObject([
      { kind: 'request.closed', status, generation: 2 },
      { kind: 'outcome', outcome: 'unknown', token: { strategy: 'none' } },
    ]);
    expect(dispatched(run, CALL)).toBeUndefined();
  });

  test('is withdrawn by a message that interrupts, and stays unknown', () => {
    const { run } = interrupted(heard(pausedRun(), say({ interrupt: true })).run);
    expect(callOf(run, CALL)).toMatchObject({ status: 'settled', outcome: UNSURE });
  });
});

describe('back to where it came from', () => {
  test('a call that policy allowed is cleared, and no request opens under the same generation again', () => {
    const back = resumed(pausedOf(pausedRun()));
    expect(back).toMatchObject({ status: 'cleared', attempts: 1, asked: 1, unsure: UNSURE });
    // What was sent before people were asked is no attempt of what they let leave.
    expect(attemptsOf(sent(back))).toBe(1);
    expect(back).not.toHaveProperty('retry');
    const again = reopened(back, { at: START, because: 'x', approvers: approverRule(), deadlineSeconds: 1 });
    expect(again.request.generation).toBe(2);
  });
});

describe('an answer', () => {
  const run = pausedRun();
  test('sent again gets its first answer, signed anew too; another under its id does not (INV-D3)', () => {
    const first = recorded(shown(run, CALL));
    const { run: after, ack } = remembering(run, 'outcome', first, START);
    expect(admitAnswer(after, 'outcome', first, runIds(), START)).toEqual({ kind: 'repeat', ack });
    const signed = { ...first, signature: 'x.y.z' };
    expect(admitAnswer(after, 'outcome', signed, runIds(), START)).toEqual({ kind: 'repeat', ack });
    const other = recorded({ ...shown(run, CALL), comment: 'other' });
    expect(admitAnswer(after, 'outcome', other, runIds(), START)).toMatchObject({ code: 'DECISION_INVALID' });
    expect(admit(after, approval({ ...shown(run, CALL), decisionId: 'r-1' }), runIds(), START)).toMatchObject({
      code: 'DECISION_INVALID',
    });
  });

  test('under the id of a decision is refused: one id is one answer', () => {
    const approved = pausedRun('approved');
    const answer = retry({ ...shown(approved, CALL), decisionId: 'd-0' });
    expect(admitAnswer(approved, 'outcome', answer, runIds(), START)).toMatchObject({ code: 'DECISION_INVALID' });
  });

  test('of the newest so many are remembered', () => {
    let last = run;
    for (let index = 0; index <= MOST_PAUSES_ANSWERED; index += 1)
      last = remembering(last, 'outcome', retry({ decisionId: `r-${index}` }), START).run;
    expect(last.answered).toHaveLength(MOST_PAUSES_ANSWERED);
    expect(last.answered[0]?.ack.decisionId).toBe('r-1');
  });

  test('is of somebody so long after the request opened', () => {
    expect(voterOf(pausedOf(run), retry(), START + 5)).toEqual({ id: 'ann', groups: [], after: 5 });
  });
});

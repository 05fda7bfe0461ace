/** What a person says became of a call: sent again, succeeded, failed (INV-X1, INV-X2). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import { describe, expect, test } from '@jest/globals';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { Resolution } from '../../../../contracts/schemas/request.ts';
import { admit } from '../../../../domain/request/decision.ts';
import {
  outcomePause as pauseFrom,
  refuseLongResult,
  resolve,
  sentAsTold,
} from '../../../../domain/request/outcome.ts';
import { admitAnswer, pausedFor, resumed } from '../../../../domain/request/pause.ts';
import { askedAgain, dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf, isAsking, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { approval, shown } from '../../../support/builders/decision.ts';
import { approverRule, clauseFor } from '../../../support/builders/judgement.ts';
import {
  approvedBy,
  flyingRun,
  outcomePause,
  pausedOf,
  pausedRun,
  pausing,
  recorded,
  recordedFailure,
  retry,
  UNSURE,
} from '../../../support/builders/pause.ts';
import { runIds, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
const TWO = { allOf: [clauseFor(['ann', 'bob'], { need: 2 })] };

/** Another authorization, which a server wants. */
const wanting = (wants: 'consent' | 'grant') =>
  ({ kind: 'authorization', server: 'files', reason: 'R', message: 'm', wants, round: 1 }) as const;

function resolved(run: Run, resolution: Resolution) {
  return resolve(run, pausedOf(run), resolution, runIds(), START);
}

describe('a retry', () => {
  test('lets the call leave once more, as it was', () => {
    const { run, facts, ack } = resolved(pausedRun(), retry());
    expect(ack).toEqual({
      callId: CALL,
      decisionId: 'r-1',
      answer: 'retry',
      decidedBy: 'ann',
      decidedAt: '2026-01-01T00:00:00.000Z',
    });
    expect(facts).toMatchObject([{ kind: 'outcome.resolved', answer: 'retry', approver: { id: 'ann' } }]);
    expect(facts[0]).not.toHaveProperty('recordedHash');
    expect(callOf(run, CALL)).toMatchObject({ status: 'cleared', retry: { resolution: { decisionId: 'r-1' } } });
    const again = dispatched(run, CALL);
    expect(again?.facts).toMatchObject([{ kind: 'dispatched', attempt: 2 }]);
    expect(callOf(again?.run ?? run, CALL)).toMatchObject({ status: 'in-flight', retry: { decidedAt: START } });
  });

  test('is spent with the attempt that it let leave', () => {
    const flying = dispatched(resolved(pausedRun('approved'), retry()).run, CALL)?.run ?? pausedRun();
    const state = callOf(flying, CALL);
    if (state?.status !== 'in-flight') throw new Error('not sent');
    const { run } = ended(flying, CALL, UNSURE);
    expect(callOf(run, CALL)).toMatchObject({ status: 'settled', outcome: UNSURE });
  });

  test('of a call that then turns out not to have run stays unknown; one that ran is what it says', () => {
    const flying = dispatched(resolved(pausedRun(), retry()).run, CALL)?.run ?? pausedRun();
    const down = { kind: 'failed', code: 'TOOL_UNAVAILABLE', message: 'down', executed: false } as const;
    expect(callOf(ended(flying, CALL, down).run, CALL)).toMatchObject({ outcome: UNSURE });
    const done: Outcome = { kind: 'succeeded', result: { content: [] } };
    expect(callOf(ended(flying, CALL, done).run, CALL)).toMatchObject({ outcome: done });
  });

  test('by one of two who must agree asks both again, and says that it may have run (INV-X1)', () => {
    const { run, facts } = resolved(pausedRun('allowed', { approvers: TWO }), retry());
    expect(callOf(run, CALL)).toMatchObject({
      status: 'waiting-for-consent',
      unsure: UNSURE,
      request: { generation: 2, because: expect.stringContaining('ann wants the call sent again') },
    });
    expect(facts).toMatchObject([{ kind: 'outcome.resolved' }, { kind: 'request.opened', generation: 2 }]);
    // It is a request for consent: each of them agrees by a decision.
    const first = approvedBy(run);
    expect(callOf(first, CALL)).toMatchObject({ status: 'waiting-for-consent', votes: [{}] });
    expect(callOf(approvedBy(first, 'bob', 'd-2'), CALL)).toMatchObject({ status: 'approved', retry: {} });
  });
});

test('the word that a call is sent again is for one sending: after the next lost answer it does not stand (INV-X1)', () => {
  const flying = dispatched(resolved(pausedRun(), retry()).run, CALL)?.run ?? pausedRun();
  expect(callOf(returned(flying, CALL).run, CALL)).toMatchObject({ retry: {} });
  expect(callOf(returned(flying, CALL, UNSURE).run, CALL)).not.toHaveProperty('retry');
  expect(callOf(returned(flying, CALL, UNSURE, false).run, CALL)).toMatchObject({ retry: {}, unsure: UNSURE });
});

describe('a call that the run sends again by itself (INV-X1)', () => {
  const again = dispatched(returned(flyingRun('approved'), CALL, UNSURE).run, CALL)?.run ?? flyingRun();

  test('says so until a person has said that it may run again, whatever else people answer', () => {
    expect(callOf(again, CALL)).toMatchObject({ status: 'in-flight', again: true });
    expect(callOf(returned(again, CALL).run, CALL)).toMatchObject({ again: true });
    const waiting = pausedFor(again, CALL, wanting('consent'), pausing(), runIds()).run.calls.find(isAsking);
    if (waiting?.status !== 'waiting-for-answer') throw new Error('it waits');
    expect(resumed(waiting)).toMatchObject({ again: true });
  });

  test('no longer says so once people have read it, and let it run or sent it again', () => {
    const lapsed = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: 'late' } as const;
    const fallback = { approvers: initiatorRule('ann'), deadlineSeconds: 60 };
    const asked = (isAnew?: boolean) =>
      callOf(askedAgain(again, CALL, lapsed, runIds(), fallback, START, isAnew).run, CALL);
    expect(asked()).not.toHaveProperty('again');
    // In a run of an older build nobody reads it there.
    expect(asked(false)).toMatchObject({ again: true });
    const lost = pausedFor(again, CALL, outcomePause(), pausing(), runIds()).run;
    expect(callOf(resolved(lost, retry()).run, CALL)).not.toHaveProperty('again');
  });
});

describe('who is asked for consent anew after a retry', () => {
  const fallback = { approvers: initiatorRule('ann'), deadlineSeconds: 60 };
  const lapsed = { kind: 'reopen', code: 'APPROVAL_LAPSED', message: 'It was given too long ago.' } as const;
  const WARNING = 'OUTCOME_UNKNOWN: it was sent before and may have run. ';
  const askedOf = (run: Run, isAnew?: boolean) => askedAgain(run, CALL, lapsed, runIds(), fallback, START, isAnew);

  test('reads that it may have run, in request, ledger and current details (INV-X1)', () => {
    const { run } = resolved(pausedRun('approved'), retry());
    for (const before of [run, dispatched(run, CALL)?.run ?? pausedRun()]) {
      const { run: asking, facts } = askedOf(before);
      const because = `${WARNING}APPROVAL_LAPSED: It was given too long ago.`;
      expect(callOf(asking, CALL)).toMatchObject({ status: 'waiting-for-consent', request: { because } });
      expect(facts).toMatchObject([{ kind: 'request.opened', because }]);
      expect(currentDetails('waiting', asking)).toContain(`may have run**: ${UNSURE.message}`);
    }
  });

  test('as it does where another authorization is wanted then; a request about the outcome says so by itself', () => {
    const flying = dispatched(resolved(pausedRun(), retry()).run, CALL)?.run ?? pausedRun();
    const { unsure: _, ...plain } = pausing();
    const wanted = pausedFor(flying, CALL, wanting('grant'), plain, runIds()).run;
    expect(currentDetails('waiting', wanted)).toContain('it was sent before and may have run');
    expect(currentDetails('waiting', pausedRun())).not.toContain('it was sent before');
  });

  test('also where the run sent it again by itself; of a call that was not sent before it reads nothing more', () => {
    const flying = flyingRun('approved');
    const repeated = dispatched(returned(flying, CALL, UNSURE).run, CALL)?.run ?? flying;
    const plain = 'APPROVAL_LAPSED: It was given too long ago.';
    expect(askedOf(flying).facts).toMatchObject([{ because: plain }]);
    expect(askedOf(repeated).facts).toMatchObject([{ because: `${WARNING}${plain}` }]);
    // Runs of older builds go on as they were recorded.
    expect(askedOf(repeated, false).facts).toMatchObject([{ because: plain }]);
    expect(currentDetails('waiting', askedOf(flying).run)).not.toContain('may have run');
    expect(currentDetails('waiting', askedOf(repeated).run)).toContain('may have run');
  });
});

describe('what is recorded', () => {
  test('a success is that of whoever says so', () => {
    const { run, facts } = resolved(pausedRun('approved'), recorded({ comment: 'looked' }));
    expect(callOf(run, CALL)).toMatchObject({
      status: 'settled',
      outcome: { kind: 'succeeded', recordedBy: 'ann', result: { content: [{ text: 'It is there: note 7.' }] } },
      pause: { status: 'resolved', by: { id: 'ann' } },
      made: { decision: { decisionId: 'd-0' } },
    });
    expect(facts).toMatchObject([
      { kind: 'outcome.resolved', answer: 'succeeded', comment: 'looked', recordedHash: expect.any(String) },
      { kind: 'outcome', outcome: 'succeeded' },
    ]);
  });

  test('a failure is final, though nobody says that nothing came of it', () => {
    const { run, facts } = resolved(pausedRun(), recordedFailure({ signature: 'x.y.z' } as Partial<Resolution>));
    expect(callOf(run, CALL)).toMatchObject({
      outcome: { kind: 'failed', code: 'TOOL_FAILED', executed: true, recordedBy: 'ann' },
    });
    expect(facts[0]).toMatchObject({ signature: { kid: '' } });
  });

  test('whom it waits on by now is told first', () => {
    const approvers = { ...approverRule(), remindAfterSeconds: 60 };
    const run = pausedRun('allowed', { approvers });
    const { facts } = resolve(run, pausedOf(run), recorded(), runIds(), START + 60_000);
    expect(facts.map(({ kind }) => kind)).toEqual(['request.reminded', 'outcome.resolved', 'outcome']);
  });

  test('a second answer is told who was first (INV-G2)', () => {
    const before = pausedRun('approved');
    const { run } = resolved(before, recorded());
    const second = retry({ ...shown(before, CALL), decisionId: 'r-2', approver: { id: 'ann', groups: [] } });
    const refusal = { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } };
    expect(admitAnswer(run, 'outcome', second, runIds(), START)).toMatchObject(refusal);
    expect(admit(run, approval({ ...shown(before, CALL), decisionId: 'd-9' }), runIds(), START)).toMatchObject(refusal);
  });

  test('a second answer about a call that nobody had to approve is told so too', () => {
    const before = pausedRun();
    const second = retry({ ...shown(before, CALL), decisionId: 'r-2' });
    expect(admitAnswer(resolved(before, recorded()).run, 'outcome', second, runIds(), START)).toMatchObject({
      code: 'ALREADY_DECIDED',
    });
  });

  test('is held to the bound of results', () => {
    expect(refuseLongResult(recorded(), { resultBytes: 5 })).toMatchObject({ code: 'DECISION_INVALID' });
    expect(refuseLongResult(recorded(), { resultBytes: 500 })).toBeUndefined();
    expect(refuseLongResult(retry(), { resultBytes: 0 })).toBeUndefined();
  });

  test('the token of the attempt stands with the outcome', () => {
    const run = pausedRun();
    const state = pausedOf(run);
    const about = outcomePause({ token: { strategy: 'none' } });
    const { facts } = resolve(run, { ...state, request: { ...state.request, about } }, recorded(), runIds(), START);
    expect(facts.at(-1)).toMatchObject({ kind: 'outcome', token: { strategy: 'none' } });
  });
});

/** What is known of a call whose outcome is not. */
describe('what is known of a call whose outcome is not', () => {
  const AT = '2026-01-01T00:00:05.000Z';

  function flight() {
    const state = callOf(flyingRun(), 't1.c0');
    if (state?.status !== 'in-flight') throw new Error('not sent');
    return state;
  }

  const HANDED = '2026-01-01T00:00:00.000Z';
  const token = { strategy: 'none' };
  const reported = (over: object = { handedAt: HANDED }) => ({
    kind: 'outcome',
    message: UNSURE.message,
    attempt: 1,
    ...over,
  });
  const known = (over: object) => {
    return pauseFrom(flight(), { kind: 'ended', outcome: UNSURE, ...over }, START);
  };
  test.each<[string, object, object]>([
    [
      'a worker tells when it left, how much came back, how far it was, and with which token',
      { sent: { at: AT, bytes: 12, progress: 0.5 }, token },
      reported({ sentAt: AT, bytes: 12, lastProgress: 0.5, token }),
    ],
    ['where no worker tells, it is not said to have left at all', {}, reported()],
  ])('%s', (_what, over, expected) => {
    expect(known(over)).toEqual(expected);
  });

  describe('the last heartbeat of a worker that is lost', () => {
    test('says what it says', () => {
      expect(sentAsTold({ phase: 'sent', sentAt: AT, progress: 3 })).toEqual({ at: AT, progress: 3 });
      expect(sentAsTold({ phase: 'sent', sentAt: AT })).toEqual({ at: AT });
    });

    test.each([undefined, null, 'sent', { phase: 'connecting' }, { sentAt: 'yesterday' }, { sentAt: 5 }])(
      'is nothing where it says %p',
      (details) => expect(sentAsTold(details)).toBeUndefined(),
    );

    test.each([{ bytes: 7 }, { progress: Number.NaN }, { progress: 'half' }])('leaves out %p', (odd) =>
      expect(sentAsTold({ sentAt: AT, ...odd })).toEqual({ at: AT }),
    );
  });
});

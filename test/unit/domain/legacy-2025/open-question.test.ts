/** A server that waits on an open connection until somebody answers (docs/adr/0040). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { InputPause } from '../../../../contracts/schemas/request.ts';
import {
  admitElicitation,
  elicitationOpened,
  elicitationClosed,
  heldWord,
} from '../../../../domain/legacy-2025/open-question.ts';
import { taskBegun } from '../../../../domain/legacy-2025/tasks.ts';
import { askedBytes, MOST_ASKED_BYTES } from '../../../../domain/request/input.ts';
import { admitAnswer } from '../../../../domain/request/pause.ts';
import { provide, refuseProvision } from '../../../../domain/request/provision.ts';
import { ended, returned } from '../../../../domain/request/transitions.ts';
import { heard } from '../../../../domain/run/message-queue.ts';
import { callOf, type Change, type Run, statusOf } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { heldOf, heldPausing, heldQuestions, heldRun } from '../../../support/builders/held-input.ts';
import { flyingRun } from '../../../support/builders/pause.ts';
import { ANN, NAME, PAGE, providedRun, provisionIn } from '../../../support/builders/provision.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { forMany } from '../../../support/for-all.ts';

const CALL = 't1.c0';
const PLACE = { callId: CALL, attempt: 1, round: 1 };
const INTERRUPT = { messageId: 'm-1', text: 'Stop.', from: 'ann', interrupt: true } as const;

const refusalOf = (run: Run, over = {}, more = {}) => admitElicitation(run, heldQuestions(over), heldPausing(more));

describe('a question on an open connection', () => {
  test('is a request of kind input, in another generation than the consent, which the call keeps', () => {
    const state = heldOf(heldRun(flyingRun('approved')));
    expect(state).toMatchObject({
      status: 'asking-on-connection',
      attempts: 1,
      questions: { rounds: 1, waited: 0 },
      request: { generation: 2, about: { kind: 'input', round: 1, requests: { who: NAME }, held: true } },
      consent: { request: { generation: 1 }, made: { decision: { kind: 'approve' } } },
    });
    expect(InputPause.parse(state.request.about)).toEqual(state.request.about);
    expect(statusOf('acting', heldRun())).toBe('waiting');
  });

  test('is in the ledger with a hash of what is asked', () => {
    const run = flyingRun();
    const { facts } = elicitationOpened(run, heldOf(heldRun(run)), runIds());
    expect(facts).toMatchObject([{ kind: 'request.opened', generation: 1, about: { kind: 'input' } }]);
    expect(facts.map((fact) => LedgerFact.parse(fact))).toEqual(facts);
    expect(JSON.stringify(facts)).not.toContain('For whom?');
  });

  test('may be answered until the deadline of the rule, or of what the connection is held, whichever is earlier', () => {
    expect(heldOf(heldRun()).request.deadline).toBe(START + 600_000);
    expect(heldOf(heldRun(flyingRun(), {}, { deadlineSeconds: 60 })).request.deadline).toBe(START + 60_000);
  });

  test('tells people that the server waits', () => {
    expect(currentDetails('waiting', heldRun())).toContain('waits on an open connection');
  });

  test.each<[string, Run, object]>([
    ['of another dispatch', flyingRun(), { attempt: 2 }],
    [
      'of a round that was asked before',
      elicitationClosed(heldRun(flyingRun(), { round: 3 }), CALL, 'expired').run,
      { round: 3 },
    ],
    ['of a round before the one that is open', heldRun(flyingRun(), { round: 2 }), { round: 1 }],
    ['that is open', heldRun(), {}],
    ['of another dispatch, while one is open', heldRun(), { attempt: 2, round: 2 }],
    ['of a call that has ended', ended(flyingRun(), CALL, { kind: 'cancelled', reason: 'x' }).run, {}],
    ['of a call that is to be sent again', returned(flyingRun(), CALL).run, {}],
    [
      'of a call that its server works on as a task',
      taskBegun(
        flyingRun(),
        CALL,
        {
          kind: 'task',
          task: {
            sealed: { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' },
            sentAt: new Date(START).toISOString(),
            until: new Date(START + 60_000).toISOString(),
          },
        },
        START,
      ).run,
      {},
    ],
    ['after an interruption', heard(flyingRun(), INTERRUPT).run, {}],
  ])('%s is not put before anybody', (_, run, over) => {
    expect(refusalOf(run, over)).toMatchObject({ kind: 'refuse', code: 'REQUEST_NOT_OPEN' });
  });

  test('is taken only of a call of this run, with a question in it, where the run holds calls of this server', () => {
    expect(refusalOf(flyingRun(), { callId: 't9.c0' })).toMatchObject({ code: 'CALL_UNKNOWN' });
    expect(refusalOf(flyingRun(), { requests: {} })).toMatchObject({ code: 'MESSAGE_INVALID' });
    expect(admitElicitation(flyingRun(), heldQuestions(), undefined)).toMatchObject({ code: 'REQUEST_NOT_OPEN' });
  });
});

describe('an answer', () => {
  test('INV-X1: the call is in flight again by the same dispatch, with the consent that it left with', () => {
    const run = heldRun(flyingRun('approved'));
    const { facts, ack, run: next } = provide(run, heldOf(run), provisionIn(run), START + 5_000);
    expect(callOf(next, CALL)).toMatchObject({
      status: 'in-flight',
      attempts: 1,
      consent: { request: { generation: 1 }, made: { decision: { kind: 'approve' } } },
      asked: 2,
      questions: { rounds: 1, waited: 5_000, last: { kind: 'answered' } },
    });
    expect(facts).toMatchObject([{ kind: 'input.provided', generation: 2, answer: 'provide' }]);
    expect(ack).toMatchObject({ answer: 'provide', decidedBy: 'ann' });
    expect(callOf(providedRun(heldRun()), CALL)).not.toHaveProperty('consent');
  });

  test('is told to the dispatch that asked, as what it has to prove', () => {
    const run = heldRun();
    expect(heldWord(run, PLACE)).toEqual({ kind: 'open' });
    const word = heldWord(providedRun(run), PLACE);
    expect(word).toMatchObject({
      kind: 'answered',
      provided: {
        provision: { decisionId: 'p-1', responses: { who: ANN } },
        about: { round: 1, held: true },
        generation: 1,
        openedAt: new Date(START).toISOString(),
      },
    });
  });

  test.each([{ attempt: 2 }, { round: 2 }, { callId: 't1.c1' }, { callId: 7 }])('is told to no other: %o', (over) => {
    for (const run of [heldRun(), providedRun(heldRun())])
      expect(heldWord(run, { ...PLACE, ...over })).toEqual({ kind: 'closed' });
    expect(heldWord(heldRun(), undefined)).toEqual({ kind: 'closed' });
  });

  test('of an earlier question, or of a call that has ended or leaves again, is not told any more', () => {
    const second = heldRun(providedRun(heldRun()), { round: 2, requests: { page: PAGE } });
    expect(heldWord(second, PLACE)).toEqual({ kind: 'closed' });
    expect(heldWord(second, { ...PLACE, round: 2 })).toEqual({ kind: 'open' });
    const answered = providedRun(heldRun());
    expect(heldWord(returned(answered, CALL).run, PLACE)).toEqual({ kind: 'closed' });
    const over = ended(answered, CALL, { kind: 'cancelled', reason: 'x' }).run;
    expect(heldWord(over, PLACE)).toEqual({ kind: 'closed' });
    expect(JSON.stringify(over.calls)).not.toContain('Ann');
  });

  test('is refused where it is no answer to the question', () => {
    const run = heldRun();
    const odd = provisionIn(run, { responses: {} });
    expect(refuseProvision(run, heldOf(run), odd)).toMatchObject({ code: 'DECISION_INVALID' });
  });

  test('that comes again gets its first ack, also while the server asks the next question', () => {
    const answer = provisionIn(heldRun());
    const second = heldRun(providedRun(heldRun()), { round: 2 });
    expect(admitAnswer(second, 'input', answer, runIds(), START)).toMatchObject({ kind: 'repeat' });
    // The same answer under another id is to the question before.
    expect(admitAnswer(second, 'input', { ...answer, decisionId: 'p-2' }, runIds(), START)).toMatchObject({
      code: 'DIGEST_MISMATCH',
    });
  });
});

describe('what nobody answers', () => {
  test('is closed, and the call goes on: it is neither expired nor withdrawn', () => {
    const run = heldRun(flyingRun('approved'));
    for (const status of ['expired', 'cancelled'] as const) {
      const { run: next, facts } = elicitationClosed(run, CALL, status);
      expect(callOf(next, CALL)).toMatchObject({
        status: 'in-flight',
        attempts: 1,
        consent: { made: {} },
        questions: { rounds: 1 },
      });
      expect(facts).toEqual([{ kind: 'request.closed', callId: CALL, generation: 2, status }]);
      expect(heldWord(next, PLACE)).toEqual({ kind: 'closed' });
    }
  });

  test.each([
    ['expired', 'DECISION_EXPIRED'],
    ['cancelled', 'REQUEST_NOT_OPEN'],
  ] as const)('%s: a later answer is refused', (status, code) => {
    const run = heldRun();
    const closed = elicitationClosed(run, CALL, status).run;
    expect(admitAnswer(closed, 'input', provisionIn(run), runIds(), START)).toMatchObject({ kind: 'refuse', code });
  });

  test('is closed by an interruption, and other calls are not touched', () => {
    const { run, facts } = heard(heldRun(), INTERRUPT);
    expect(callOf(run, CALL)).toMatchObject({ status: 'in-flight', questions: { last: { kind: 'cancelled' } } });
    expect(facts.map(({ kind }) => kind)).toEqual(['said', 'request.closed']);
  });

  test('is closed once: what is not open is left as it is', () => {
    for (const run of [flyingRun(), providedRun(heldRun())])
      expect(elicitationClosed(run, CALL, 'expired')).toEqual({ run, facts: [] });
  });
});

describe('a further question', () => {
  const LATER = START + 400_000;

  test('closes the one that is open, whose answer is taken no more; the consent stays', () => {
    const run = heldRun(flyingRun('approved'));
    const admission = admitElicitation(
      run,
      heldQuestions({ round: 2, requests: { page: PAGE } }),
      heldPausing({ at: LATER }),
    );
    if (admission.kind !== 'accept') throw new Error(admission.message);
    const { run: next, facts } = elicitationOpened(run, admission.state, runIds());
    expect(facts).toMatchObject([
      { kind: 'request.closed', generation: 2, status: 'cancelled' },
      { kind: 'request.opened', generation: 3 },
    ]);
    expect(heldOf(next)).toMatchObject({
      attempts: 1,
      consent: { request: { generation: 1 }, made: { decision: { kind: 'approve' } } },
      request: { about: { round: 2, requests: { page: PAGE } } },
    });
    expect(heldWord(next, PLACE)).toEqual({ kind: 'closed' });
    expect(heldWord(next, { ...PLACE, round: 2 })).toEqual({ kind: 'open' });
    expect(admitAnswer(next, 'input', provisionIn(run), runIds(), LATER)).toMatchObject({ code: 'DIGEST_MISMATCH' });
  });

  test('has what the one before has left of the time, and no less', () => {
    const second = heldRun(heldRun(), { round: 2 }, { at: LATER });
    expect(heldOf(second)).toMatchObject({ questions: { rounds: 2, waited: 400_000 } });
    expect(heldOf(second).request.deadline).toBe(START + 600_000);
    // Its timer has not fired yet; what was waited beyond its deadline was waited for nobody.
    const short = heldRun(flyingRun(), {}, { deadlineSeconds: 60 });
    expect(heldOf(heldRun(short, { round: 2 }, { at: LATER }))).toMatchObject({ questions: { waited: 60_000 } });
  });

  test('may leave rounds out: what was refused, or asked by somebody else, costs no other', () => {
    const third = heldRun(flyingRun(), { round: 3 });
    expect(heldWord(third, { ...PLACE, round: 3 })).toEqual({ kind: 'open' });
    expect(refusalOf(third, { round: 2 })).toMatchObject({ code: 'REQUEST_NOT_OPEN' });
    expect(heldOf(heldRun(third, { round: 10 }))).toMatchObject({ questions: { rounds: 10 } });
    expect(refusalOf(third, { round: 11 })).toMatchObject({ code: 'LIMIT_REACHED' });
  });
});

describe('bounds', () => {
  test('the time of all questions of a dispatch together', () => {
    const run = heldRun();
    const answered = provide(run, heldOf(run), provisionIn(run), START + 400_000).run;
    const second = heldRun(answered, { round: 2 }, { at: START + 450_000 });
    expect(heldOf(second).request.deadline).toBe(START + 650_000);
    const over = elicitationClosed(second, CALL, 'expired').run;
    expect(refusalOf(over, { round: 3 }, { at: START + 650_000 })).toMatchObject({
      code: 'LIMIT_REACHED',
      facts: { limit: 'input' },
    });
    // The rule gave less time than was left.
    const short = elicitationClosed(heldRun(flyingRun(), {}, { deadlineSeconds: 60 }), CALL, 'expired').run;
    expect(heldOf(heldRun(short, { round: 2 }, { at: START + 60_000 })).request.deadline).toBe(START + 600_000);
  });

  test('ten questions of a dispatch', () => {
    let run = flyingRun();
    for (let round = 1; round <= 10; round += 1) {
      const asked = heldRun(run, { round });
      run = providedRun(asked, { decisionId: `p-${round}` });
    }
    expect(refusalOf(run, { round: 11 })).toMatchObject({ code: 'LIMIT_REACHED' });
  });

  test('a fresh dispatch begins with the first', () => {
    const again = returned(providedRun(heldRun()), CALL).run;
    expect(callOf(again, CALL)).not.toHaveProperty('questions');
    expect(callOf(again, CALL)?.status).not.toBe('asking-on-connection');
  });

  test('bytes: questions and answers count as those of calls that leave again', () => {
    const long = { requests: { who: { ...NAME, message: 'x'.repeat(MOST_ASKED_BYTES) } } };
    expect(refusalOf(flyingRun(), long)).toMatchObject({ code: 'LIMIT_REACHED' });
    const fits = { requests: { who: { ...NAME, message: 'x'.repeat(MOST_ASKED_BYTES - 1_000) } } };
    expect(refusalOf(flyingRun(), fits)).toMatchObject({ kind: 'accept' });
    expect(askedBytes(providedRun(heldRun()))).toBeGreaterThan(askedBytes(heldRun()));
  });
});

/** Whatever a server asks on an open connection, and whatever people do, its call stays the one that was sent (INV-X1, INV-G2). */
describe('in any order', () => {
  const HOLD_SECONDS = 600;

  type Step =
    | { readonly kind: 'ask'; readonly round: number; readonly attempt: number; readonly deadlineSeconds: number }
    | { readonly kind: 'answer' | 'close' | 'word' }
    | { readonly kind: 'pass'; readonly ms: number };

  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({
      kind: fc.constant('ask' as const),
      /** From the one that is next. */
      round: fc.constantFrom(0, 0, 0, 0, -1, 1, 2),
      attempt: fc.constantFrom(1, 1, 1, 2),
      deadlineSeconds: fc.integer({ min: 1, max: 700 }),
    }),
    fc.record({ kind: fc.constantFrom('answer' as const, 'answer' as const, 'close' as const, 'word' as const) }),
    fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 100_000 }) }),
  );

  test.each(['allowed', 'approved'] as const)('of a call that was %s', (consent) => {
    forMany({ numRuns: 300 }, fc.array(step, { maxLength: 60 }), (steps) => {
      let run = flyingRun(consent);
      const sent = callOf(run, CALL);
      let now = START;
      let asked = 0;
      const facts: LedgerFact[] = [];
      const take = (change: Change): void => {
        ({ run } = change);
        facts.push(...change.facts);
      };
      for (const each of steps) {
        // As the run's timer does.
        const open = callOf(run, CALL);
        if (open?.status === 'asking-on-connection' && now >= open.request.deadline)
          take(elicitationClosed(run, CALL, 'expired'));
        const before = callOf(run, CALL);
        if (each.kind === 'pass') now += each.ms;
        if (each.kind === 'close') take(elicitationClosed(run, CALL, 'cancelled'));
        if (each.kind === 'ask') {
          const { attempt, deadlineSeconds } = each;
          const questions = heldQuestions({ attempt, round: Math.max(1, asked + 1 + each.round) });
          const pausing = heldPausing({ at: now, deadlineSeconds, holdSeconds: HOLD_SECONDS });
          const admission = admitElicitation(run, questions, pausing);
          if (admission.kind === 'accept') {
            expect([attempt, questions.round > asked]).toEqual([1, true]);
            asked = questions.round;
            take(elicitationOpened(run, admission.state, runIds()));
          }
        }
        if (each.kind === 'answer' && before?.status === 'asking-on-connection') {
          const provision = provisionIn(run, { decisionId: `p-${facts.length}` });
          const admission = admitAnswer(run, 'input', provision, runIds(), now);
          expect(admission.kind).toBe('accept');
          take(provide(run, heldOf(run), provision, now));
          expect(heldWord(run, { callId: CALL, attempt: 1, round: asked }).kind).toBe('answered');
        }
        const state = callOf(run, CALL);
        // Never sent again, never settled, never asked for consent: only the dispatch itself ends it.
        expect(['in-flight', 'asking-on-connection']).toContain(state?.status);
        expect(state).toMatchObject({ attempts: 1 });
        if (state?.status === 'in-flight') {
          const { questions: _, asked: __, ...flight } = state;
          expect(flight).toEqual(sent);
        }
      }
      const opened = facts.filter(({ kind }) => kind === 'request.opened');
      const over = facts.filter(({ kind }) => kind === 'input.provided' || kind === 'request.closed');
      expect(opened.length).toBeLessThanOrEqual(10);
      expect(opened.length - over.length).toBe(callOf(run, CALL)?.status === 'asking-on-connection' ? 1 : 0);
      // Each in a generation of its own; and none is open while another one is.
      const generations = opened.map((fact) => 'generation' in fact && fact.generation);
      expect(generations).toEqual(generations.map((_, index) => index + (consent === 'approved' ? 2 : 1)));
      facts.forEach(({ kind }, index) => expect(kind === 'request.opened').toBe(index % 2 === 0));
      const last = callOf(run, CALL);
      const waited = last?.status === 'in-flight' ? (last.questions?.waited ?? 0) : 0;
      expect(waited).toBeLessThanOrEqual(HOLD_SECONDS * 1_000);
    });
  });
});

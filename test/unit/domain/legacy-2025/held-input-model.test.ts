/** Whatever a server asks on an open connection, and whatever people do, its call stays the one that was sent (INV-X1, INV-G2). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { heldWord } from '../../../../domain/legacy-2025/open-question-proof.ts';
import { admitHeld, askedHeld, closedHeld } from '../../../../domain/legacy-2025/open-question.ts';
import { admitAnswer } from '../../../../domain/request/pause.ts';
import { provide } from '../../../../domain/request/provision.ts';
import { callOf, type Change } from '../../../../domain/state/run.ts';
import { heldOf, heldPausing, heldQuestions } from '../../../support/builders/held-input.ts';
import { flyingRun } from '../../../support/builders/pause.ts';
import { provisionIn } from '../../../support/builders/provision.ts';
import { runIds, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
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
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
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
          take(closedHeld(run, CALL, 'expired'));
        const before = callOf(run, CALL);
        if (each.kind === 'pass') now += each.ms;
        if (each.kind === 'close') take(closedHeld(run, CALL, 'cancelled'));
        if (each.kind === 'ask') {
          const { attempt, deadlineSeconds } = each;
          const questions = heldQuestions({ attempt, round: Math.max(1, asked + 1 + each.round) });
          const pausing = heldPausing({ at: now, deadlineSeconds, holdSeconds: HOLD_SECONDS });
          const admission = admitHeld(run, questions, pausing);
          if (admission.kind === 'accept') {
            expect([attempt, questions.round > asked]).toEqual([1, true]);
            asked = questions.round;
            take(askedHeld(run, admission.state, runIds()));
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
    }),
    { numRuns: 300 },
  );
});

/** A call that may have run once stays "unknown" unless a later attempt says otherwise (INV-X2). */
import { expect, test } from '@jest/globals';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import { dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
const UNSURE = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'the answer was lost' } as const;

/** One attempt was lost, and another one is under way. */
function sentAgain(unsure: typeof UNSURE | undefined): Run {
  const first = dispatched(
    judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() })),
    CALL,
  )?.run;
  const back = first === undefined ? undefined : returned(first, CALL, unsure).run;
  const second = back === undefined ? undefined : dispatched(back, CALL)?.run;
  if (second === undefined) throw new Error('an allowed call is sent');
  return second;
}

const NOT_RUN: readonly Outcome[] = [
  { kind: 'failed', code: 'TOOL_UNAVAILABLE', message: 'down', executed: false },
  { kind: 'cancelled', reason: 'stopped' },
  { kind: 'denied', code: 'POLICY_DENIED', message: 'no' },
];
const RUN: readonly Outcome[] = [
  { kind: 'succeeded', result: { content: [] } },
  { kind: 'failed', code: 'TOOL_FAILED', message: 'no money', executed: true },
];

test.each(NOT_RUN)('$kind after a lost attempt is unknown, in state and ledger', (outcome) => {
  const { run, facts } = ended(sentAgain(UNSURE), CALL, outcome);
  expect(callOf(run, CALL)).toMatchObject({ outcome: UNSURE });
  expect(facts).toMatchObject([{ kind: 'outcome', outcome: 'unknown' }]);
});

test.each(RUN)('$kind after a lost attempt is what it says', (outcome) => {
  expect(callOf(ended(sentAgain(UNSURE), CALL, outcome).run, CALL)).toMatchObject({ outcome });
});

test.each(NOT_RUN)('$kind without a lost attempt is what it says', (outcome) => {
  expect(callOf(ended(sentAgain(undefined), CALL, outcome).run, CALL)).toMatchObject({ outcome });
});

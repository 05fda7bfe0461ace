/** Where a run is, in one word. */
import { describe, expect, test } from '@jest/globals';
import { ended } from '../../../../domain/request/transitions.ts';
import { askingCalls, isSettled, proposed, startRun, statusOf, waitOf } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { allowVerdict, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, START } from '../../../support/builders/run.ts';

const verdicts = [askVerdict({ deadlineSeconds: 7_200 }), askVerdict({ deadlineSeconds: 60 }), allowVerdict()];
const mixed = judgedRun(identicalCalls(3), (_call, index) => ({ verdict: verdicts[index] ?? askVerdict() }));

describe('status', () => {
  test('waits only where nothing can happen until somebody decides', () => {
    expect(statusOf('acting', askingRun(2))).toBe('waiting');
    expect(statusOf('acting', mixed)).toBe('acting');
    const siblingDone = ended(mixed, 't1.c2', outcomes().succeeded).run;
    expect(statusOf('acting', siblingDone)).toBe('waiting');
  });

  test('acts while a call is proposed, and between turns', () => {
    expect(
      statusOf('acting', proposed(startRun(START), identicalCalls(1), { inputTokens: 0, outputTokens: 0 }).run),
    ).toBe('acting');
    expect(statusOf('acting', startRun(START))).toBe('acting');
    expect(statusOf('acting', ended(askingRun(), 't1.c0', outcomes().cancelled).run)).toBe('acting');
  });

  test.each(['preparing', 'thinking', 'completed', 'stopped', 'limited', 'cancelled', 'failed'] as const)(
    'a run that is %s says so, whatever its calls',
    (phase) => {
      expect(statusOf(phase, askingRun(2))).toBe(phase);
    },
  );
});

describe('what waits', () => {
  test('is the open requests, with the earliest deadline and the longest wait', () => {
    expect(askingCalls(mixed).map(({ call }) => call.callId)).toEqual(['t1.c0', 't1.c1']);
    expect(waitOf(mixed)).toEqual({ nextDeadline: START + 60_000, waitingSince: START });
  });

  test('counts the longest wait from the request that was opened first', () => {
    const later = mixed.calls.map((state) =>
      state.status === 'waiting-for-consent' && state.call.callId === 't1.c0'
        ? { ...state, request: { ...state.request, openedAt: START + 5 } }
        : state,
    );
    expect(waitOf({ ...mixed, calls: later }).waitingSince).toBe(START);
  });

  test('is nothing where no request is open', () => {
    expect(waitOf(startRun(START))).toEqual({});
    expect(askingCalls(startRun(START))).toEqual([]);
  });

  test('a settled call is told from the others', () => {
    const run = ended(mixed, 't1.c1', outcomes().cancelled).run;
    expect(run.calls.map(isSettled)).toEqual([false, true, false]);
  });
});

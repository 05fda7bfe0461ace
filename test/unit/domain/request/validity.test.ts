/** An approval holds for a while (F-6): which is too long ago is seen before the call is sent. */
import { expect, test } from '@jest/globals';
import { describeLapse, lapsedSince } from '../../../../domain/request/deadline.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { askedAgain } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

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
  const fallback = { approverId: 'ann', deadlineSeconds: 60 };
  const { run: again, facts } = askedAgain(approved, 't1.c0', lapse, runIds(), fallback, START + 1);
  expect(callOf(again, 't1.c0')).toMatchObject({
    status: 'waiting-for-consent',
    request: { generation: 2, deadline: START + 60_001 },
  });
  expect(facts).toMatchObject([{ kind: 'request.opened', because: expect.stringContaining('APPROVAL_LAPSED') }]);
  expect(shown(again, 't1.c0').digest).not.toBe(shown(run, 't1.c0').digest);
});

// What people have answered is remembered in one list.
import { expect, test } from '@jest/globals';
import { answerersByDefault, initiatorRule } from '../../../../domain/policy/approvers.ts';
import { fromCarry, toCarry } from '../../../../domain/run/carry.ts';
import type { Remembered } from '../../../../contracts/wire/carry.ts';
import { answeredWith, MOST_ANSWERED, type Run, startRun } from '../../../../domain/state/run.ts';

const WHO = { callId: 't1.c0', decidedBy: 'ann' };

function decision(decisionId: string, decidedAt: string): Remembered {
  return { ack: { ...WHO, decisionId, decidedAt, status: 'approved' }, message: 'hash' };
}

function resolution(decisionId: string, decidedAt: string): Remembered {
  return { ack: { ...WHO, decisionId, decidedAt, answer: 'retry' }, content: 'hash' };
}

function idsOf({ answered }: Run): readonly string[] {
  return answered.map(({ ack }) => ack.decisionId);
}

test('the order of answers survives continue-as-new, also where the clock of a later execution is behind', () => {
  const answers = [
    decision('a', '2026-01-01T00:00:00.000Z'),
    resolution('b', '2026-01-01T00:00:01.000Z'),
    decision('c', '2026-01-01T00:00:02.000Z'),
    resolution('d', '2026-01-01T00:00:02.000Z'),
    decision('e', '2026-01-01T00:00:01.000Z'),
  ];
  const run = answers.reduce(answeredWith, startRun(0));
  expect(idsOf(fromCarry(toCarry(run).run))).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('the oldest decision is forgotten where there are too many, and no other answer for it', () => {
  let run = answeredWith(startRun(0), resolution('r', '2026-01-01T00:00:00.000Z'));
  for (let n = 0; n <= MOST_ANSWERED; n += 1) run = answeredWith(run, decision(`d${n}`, '2026-01-01T00:00:01.000Z'));
  expect(run.answered).toHaveLength(MOST_ANSWERED + 1);
  expect(idsOf(run).slice(0, 2)).toEqual(['r', 'd1']);
});

test('where nobody is named, who started the run decides within a day', () => {
  expect(answerersByDefault('ann')).toEqual({ approvers: initiatorRule('ann'), deadlineSeconds: 86_400 });
});

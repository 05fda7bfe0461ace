/** What a run hands to its next execution: all of it survives JSON (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { taskBegun } from '../../../../domain/legacy-2025/tasks.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { resolve } from '../../../../domain/request/outcome.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { type Carry, carryVersionOf } from '../../../../domain/run/carry.ts';
import { EMPTY_JOURNAL } from '../../../../domain/run/journal.ts';
import { heard, stopped } from '../../../../domain/run/message-queue.ts';
import type { Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, say, shown, stop } from '../../../support/builders/decision.ts';
import { allowVerdict, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { flyingRun, pausedOf, pausedRun, retry } from '../../../support/builders/pause.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';

function carryOf(run: Run): Carry {
  const { opening: _opening, ...prepared } = preparedRun();
  return {
    version: carryVersionOf(run),
    prepared,
    toolset: [],
    run,
    journal: EMPTY_JOURNAL,
    earlier: ['run-0'],
  };
}

/** A run with a call in every state, an answered one, a message, a stop. */
function everything(): Run {
  const asked = judgedRun(identicalCalls(6), (_call, index) => ({
    verdict: index === 0 ? allowVerdict() : askVerdict(),
  }));
  const steps: readonly ((run: Run) => Run)[] = [
    (run) => accept(run, askingOf(run, 't1.c1'), approval(shown(run, 't1.c1')), START).run,
    (run) => accept(run, askingOf(run, 't1.c2'), rejection({ ...shown(run, 't1.c2'), decisionId: 'd-2' }), START).run,
    (run) => ended(run, 't1.c3', outcomes().expired).run,
    (run) => accept(run, askingOf(run, 't1.c4'), approval({ ...shown(run, 't1.c4'), decisionId: 'd-4' }), START).run,
    (run) => dispatched(run, 't1.c4')?.run ?? run,
    (run) => heard(run, say()).run,
    (run) => stopped(run, stop()).run,
  ];
  return steps.reduce((run, step) => step(run), asked);
}

describe('carry', () => {
  test('is of a version that a build without pauses refuses, from the first question to the end of the call (INV-X1)', () => {
    const flying = flyingRun('approved');
    const asking = pausedRun('approved');
    const sentAgain = resolve(asking, pausedOf(asking), retry(), runIds(), START).run;
    const over = ended(dispatched(sentAgain, 't1.c0')?.run ?? sentAgain, 't1.c0', outcomes().succeeded).run;
    expect([everything(), flying, asking, sentAgain, over].map(carryVersionOf)).toEqual([1, 1, 2, 2, 1]);
    const authorized = { ...flying, grants: [] };
    expect(carryVersionOf(authorized)).toBe(2);
  });

  test('is of a version that a build with pauses and without tasks refuses, as long as a server works on a call as a task (INV-X1)', () => {
    const sealed = { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' };
    const task = { sealed, sentAt: new Date(START).toISOString(), until: new Date(START + 60_000).toISOString() };
    const begun = taskBegun(flyingRun(), 't1.c0', { kind: 'task', task }, START).run;
    const over = ended(begun, 't1.c0', outcomes().succeeded).run;
    expect([flyingRun(), begun, over].map(carryVersionOf)).toEqual([1, 3, 1]);
    // What a build with pauses alone would refuse counts more.
    expect(carryVersionOf({ ...begun, grants: [] })).toBe(3);
  });

  test('is the same after a way through JSON: no date, no undefined, no method is in it', () => {
    const carry = carryOf(everything());
    expect(new Set(carry.run.calls.map(({ status }) => status))).toEqual(
      new Set(['cleared', 'approved', 'settled', 'in-flight', 'asking']),
    );
    expect(JSON.parse(JSON.stringify(carry))).toStrictEqual(carry);
  });
});

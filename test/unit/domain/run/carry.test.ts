/** What a run hands to its next execution: all of it survives JSON (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { taskBegun } from '../../../../domain/legacy-2025/tasks.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { provide } from '../../../../domain/request/provision.ts';
import { throttledBy } from '../../../../domain/request/throttling.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { fromCarry, toCarry } from '../../../../domain/run/carry.ts';
import { EMPTY_JOURNAL } from '../../../../domain/run/journal.ts';
import { heard, stopped } from '../../../../domain/run/message-queue.ts';
import type { Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, say, shown, stop } from '../../../support/builders/decision.ts';
import { allowVerdict, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { flyingRun, pausedRun } from '../../../support/builders/pause.ts';
import { heldOf, heldRun } from '../../../support/builders/held-input.ts';
import { provisionIn } from '../../../support/builders/provision.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { judgedRun, proposedRun, START } from '../../../support/builders/run.ts';
import type { CarriedRun, Carry } from '../../../../contracts/wire/carry.ts';

function carryOf(run: Run): Carry {
  const { opening: _opening, ...prepared } = preparedRun();
  return {
    ...toCarry(run),
    prepared,
    toolset: [],
    journal: EMPTY_JOURNAL,
    earlier: ['run-0'],
  };
}

const TASK = {
  sealed: { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' },
  sentAt: new Date(START).toISOString(),
  until: new Date(START + 60_000).toISOString(),
};
const HOLDING = {
  kind: 'not-sent',
  code: 'TOOL_RATE_LIMITED',
  message: 'busy',
  held: { by: 'rate', atMostSeconds: 60 },
} as const;

/** A run with calls in five states, an answered one, a message, a stop. */
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
  test('is the same after a way through JSON: no date, no undefined, no method is in it', () => {
    const carry = carryOf(everything());
    expect(new Set(carry.run.calls.map(({ status }) => status))).toEqual(
      new Set(['cleared', 'approved', 'settled', 'in-flight', 'asking']),
    );
    expect(JSON.parse(JSON.stringify(carry))).toStrictEqual(carry);
  });

  test('is read back as the same run, whatever state its calls are in (INV-D3)', () => {
    const throttled = (run: Run): Run => throttledBy(run, 't1.c0', HOLDING, START).run;
    const begun = (run: Run): Run => taskBegun(run, 't1.c0', { kind: 'task', task: TASK }, START).run;
    const answered = (run: Run): Run => provide(run, heldOf(run), provisionIn(run), START).run;
    const runs = (['allowed', 'approved'] as const).flatMap((consent) => [
      flyingRun(consent),
      pausedRun(consent),
      throttled(flyingRun(consent)),
      begun(flyingRun(consent)),
      heldRun(flyingRun(consent)),
      answered(heldRun(flyingRun(consent))),
    ]);
    const all = [proposedRun(identicalCalls(1)), everything(), ...runs];
    expect(new Set(all.flatMap(({ calls }) => calls.map(({ status }) => status))).size).toBe(10);
    // Sound: a carry is JSON.
    const carried = (run: Run): CarriedRun => JSON.parse(JSON.stringify(toCarry(run).run)) as CarriedRun;
    for (const run of all) expect(fromCarry(carried(run))).toStrictEqual(run);
    for (const run of all)
      for (const { status } of carried(run).calls)
        expect(['proposed', 'cleared', 'asking', 'approved', 'in-flight', 'settled']).toContain(status);
  });
});

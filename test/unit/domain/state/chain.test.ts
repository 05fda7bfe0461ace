/** In which Temporal runs a decision may have been made (INV-G2, INV-D3). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { carriedExecutions, decidedIn, type Execution } from '../../../../domain/state/run.ts';

const first: Execution = { runId: 'r1', originalRunId: 'r1', earlier: [] };

/** The execution that follows by continue-as-new. */
function continued(from: Execution, runId: string): Execution {
  return { runId, originalRunId: runId, earlier: carriedExecutions(from) };
}

/** The execution that a reset makes of it: what was carried in is still there, the run id is new. */
function reset(from: Execution, runId: string): Execution {
  return { ...from, runId };
}

describe('executions of a run', () => {
  test('a decision counts in the run in which it was made', () => {
    expect(decidedIn(first)).toEqual(['r1']);
  });

  test('INV-D3: it still counts after the run continued as new', () => {
    expect(decidedIn(continued(continued(first, 'r2'), 'r3'))).toEqual(['r1', 'r2', 'r3']);
  });

  test('INV-G2: after a reset only decisions made in the reset run count', () => {
    const second = continued(first, 'r2');
    expect(decidedIn(reset(second, 'r2-reset'))).toEqual(['r2-reset']);
    expect(decidedIn(reset(first, 'r1-reset'))).toEqual(['r1-reset']);
  });

  test('INV-G2: what a reset left behind does not come back when the run continues as new', () => {
    expect(decidedIn(continued(reset(continued(first, 'r2'), 'r2-reset'), 'r3'))).toEqual(['r2-reset', 'r3']);
  });

  test('over any history of continuing and resetting, exactly the runs since the last reset count', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('continue', 'reset'), { maxLength: 30 }), (steps) => {
        let execution = first;
        let counting = ['r1'];
        for (const [index, step] of steps.entries()) {
          const runId = `r${index + 2}`;
          execution = step === 'continue' ? continued(execution, runId) : reset(execution, runId);
          counting = step === 'continue' ? [...counting, runId] : [runId];
        }
        expect(decidedIn(execution)).toEqual(counting);
      }),
    );
  });

  test('what is carried stays small: the newest 200 runs', () => {
    let execution = first;
    for (let index = 2; index <= 250; index += 1) execution = continued(execution, `r${index}`);
    expect(carriedExecutions(execution)).toHaveLength(200);
    expect(carriedExecutions(execution).at(-1)).toBe('r250');
    expect(carriedExecutions(execution)[0]).toBe('r51');
    expect(decidedIn(execution)).toContain('r250');
  });
});

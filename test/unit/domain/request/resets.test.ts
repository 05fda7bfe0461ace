/**
 * INV-G2 and INV-D4 over whole runs that continue as new and are reset (F38): what was said or shown before a reset
 * sends nothing, and what is in history is applied again as it was, whatever the Temporal run is called by then.
 */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { nextTurn } from '../../../support/builders/standing.ts';
import { forMany } from '../../../support/for-all.ts';
import { decisionOf, OPEN_VERDICT, POOL } from '../../../support/stories/consent.ts';
import { Story } from '../../../support/stories/reset.ts';

const SAID = ['approve', 'approve', 'remember', 'edit', 'reject', 'respond', 'withdraw'];
const HAPPENING = ['turn', 'schedule', 'send', 'send', 'send', 'roll', 'reset', 'reset', 'late', 'late'];
const which = fc.nat({ max: 2 });
const step = fc.record({
  what: fc.constantFrom(...SAID, ...HAPPENING),
  who: fc.constantFrom('ann', 'ann', 'bob', 'mallory'),
  by: fc.constantFrom<'update' | 'signal'>('update', 'update', 'signal'),
  call: fc.nat({ max: 1 }),
  args: which,
  scope: fc.nat({ max: 3 }),
  at: fc.nat({ max: 12 }),
});

test('F38: over resets and continue-as-new nothing is sent by what was said or shown before the last reset', () => {
  const told: Record<string, number> = {};
  forMany({ numRuns: 1_500 }, fc.array(step, { minLength: 5, maxLength: 30 }), (steps) => {
    const story = new Story();
    const turn = (args: readonly number[]): void =>
      story.happens({
        apply: (run) =>
          nextTurn(
            run,
            args.map((at) => POOL[at] ?? {}),
            { verdict: OPEN_VERDICT },
          ),
      });
    turn([0, 1]);
    for (const [index, each] of steps.entries()) {
      const callId = `t${story.run.turn}.c${each.call}`;
      switch (each.what) {
        case 'turn':
          if (story.underWay.length === 0) turn([each.args, each.scope % POOL.length]);
          break;
        case 'roll':
          story.rolls();
          break;
        case 'reset':
          story.isReset(each.args, each.at);
          break;
        case 'late':
          story.isAnsweredLate(each.at, `late-${index}`, each.by);
          break;
        case 'schedule':
          story.schedule(callId);
          break;
        case 'send':
          story.schedule(callId);
          for (const input of story.underWay) story.dispatch(input);
          break;
        default: {
          const decision = decisionOf(story.run, each, callId, `d-${index}`, story.ids);
          if (decision === undefined) break;
          const before = story.run;
          story.decides(decision, each.by);
          // Strangers change nothing (INV-G2).
          if (each.who === 'mallory') expect(story.run).toBe(before);
        }
      }
    }
    for (const [what, times] of Object.entries(story.told)) told[what] = (told[what] ?? 0) + times;
  });
  // Not vacuous.
  for (const what of ['sent', 'sentAfterReset', 'carried', 'staleDispatch', 'staleRun', 'refused', 'reapplied'])
    expect([what, (told[what] ?? 0) > 20]).toEqual([what, true]);
});

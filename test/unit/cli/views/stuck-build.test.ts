/** A run that stays with a failing build: what `show` says must get it going again. */
import { expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { plain } from '../../../../cli/session/terminal.ts';
import { stuckError, stuckText } from '../../../../cli/views/recovery.ts';
import { comingTask, failingTask } from '../../../../client/engine/executions.ts';
import { ZONE_KEY_GONE } from '../../../../client/engine/trouble.ts';

/** @param behavior 1: pinned, 2: to the current build with each task */
function textOf(behavior: number, message = 'no good'): string {
  const deploymentVersion = { deploymentName: 'agents', buildId: 'bad0' };
  const failing = failingTask({
    events: [
      { workflowTaskCompletedEventAttributes: { deploymentVersion, versioningBehavior: behavior } },
      { eventTime: msToTs(0), workflowTaskFailedEventAttributes: { failure: { message } } },
    ],
  });
  if (failing === undefined) throw new Error('no task fails');
  return stuckText({ runId: 'r', failing, upTo: 2, of: 2, answers: {}, calls: [] }, plain);
}

test('a run that stays with a build is moved from it: another worker alone does not get it', () => {
  expect(textOf(1)).toMatch(
    /stays with build bad0\. .+ make this one current .+: countersign deploy drain bad0 --move/,
  );
});

test('a run that stays with none goes on with a worker that replays it', () => {
  expect(textOf(2)).toMatch(/replays all of it: run it as a worker, and the run goes on/);
});

test('a run that waits says that it cannot be replayed: no task of it fails yet, and none gets a date', () => {
  const deploymentVersion = { deploymentName: 'agents', buildId: 'bad0' };
  const waiting = { events: [{ workflowTaskCompletedEventAttributes: { deploymentVersion, versioningBehavior: 1 } }] };
  const failing = comingTask(waiting, new Error('[TMPRL1100] no good'));
  const stuck = { runId: 'r', failing, upTo: 2, of: 2, answers: {}, calls: [] };
  const shown = stuckText(stuck, plain);
  expect(shown).toMatch(
    /^stuck {2}r: a worker answered that it cannot replay it\n.+TMPRL1100.+\n.+\n.+drain bad0 --move/,
  );
  expect(stuckError(stuck, 3).message).toMatch(/^Run r is stuck: \[TMPRL1100\] no good\. /);
  // This build cannot replay it either, and another may.
  expect(stuckText({ ...stuck, task: 2 }, plain)).toContain('where no build can go on with it: countersign recover r');
});

test('words that a removed key and a bad build have in common leave both ways out', () => {
  expect(textOf(1, `${ZONE_KEY_GONE} of this worker, or this build asks something else.`)).toMatch(
    /if a key was removed from trust\.zone\.keys, put it back, .+; else .+ deploy drain bad0 --move/,
  );
});

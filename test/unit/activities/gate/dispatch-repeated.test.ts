/** A dispatch that Temporal was made to hand out again: whoever has it now cannot know whether it has left (INV-X1). */
import { expect, test } from '@jest/globals';
import { dispatchScene } from '../../../support/activities/dispatch.ts';

const AT = 1_700_000_000_000;

test('control: however long it has waited for a worker, the first attempt is sent', async () => {
  const { dispatched, done } = dispatchScene();
  const tried = { attempt: 1, scheduledAt: AT, attemptAt: AT };
  expect(await dispatched({}, {}, tried)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(done).toContain('called');
});

test.each([
  ['a later attempt', { attempt: 2, scheduledAt: AT, attemptAt: AT + 1_000 }],
  ['a later attempt of the same time', { attempt: 2, scheduledAt: AT, attemptAt: AT }],
  ['an activity that was reset, which counts its attempts anew', { attempt: 1, scheduledAt: AT, attemptAt: AT + 1 }],
])('%s is sent by nobody, and nobody is told that it did not run', async (_what, tried) => {
  const { dispatched, done } = dispatchScene();
  expect(await dispatched({}, {}, tried)).toEqual({
    kind: 'ended',
    outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('not sent') },
  });
  expect(done).toEqual([]);
});

test('in a run that was reset it is asked anew, as each that was scheduled before: Temporal has set its time anew', async () => {
  const { dispatched, done } = dispatchScene();
  const tried = { attempt: 1, scheduledAt: AT, attemptAt: AT + 1_000 };
  const stale = { runId: 'before', decidedIn: ['before'] };
  expect(await dispatched({}, stale, tried)).toMatchObject({ kind: 'reopen', code: 'DISPATCH_STALE_RUN' });
  expect(done).toEqual([]);
});

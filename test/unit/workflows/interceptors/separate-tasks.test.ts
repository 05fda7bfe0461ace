// Which commands become events, so that a workflow task that leaves none gets one (INV-D1).
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { type Command, leavesEvent } from '../../../../workflows/interceptors/separate-tasks.ts';

const startTimer = (seq: number): Command => ({ startTimer: { seq } });
const cancelTimer = (seq: number): Command => ({ cancelTimer: { seq } });
const scheduleActivity = (seq: number): Command => ({ scheduleActivity: { seq } });
const requestCancelActivity = (seq: number): Command => ({ requestCancelActivity: { seq } });
const ACCEPTED: ReadonlySet<string> = new Set(['earlier']);
const rejected: Command = { updateResponse: { protocolInstanceId: 'u', rejected: { message: 'no' } } };

test.each<[string, readonly Command[]]>([
  ['a timer', [startTimer(1)]],
  ['an activity', [scheduleActivity(1)]],
  ['a timer beside the cancellation of an activity with the same number', [startTimer(1), requestCancelActivity(1)]],
  ['an activity beside the cancellation of another', [scheduleActivity(2), requestCancelActivity(1)]],
  ['an accepted update', [{ updateResponse: { protocolInstanceId: 'u', accepted: {} } }]],
  ['an update with its answer', [{ updateResponse: { protocolInstanceId: 'u', completed: {} } }]],
  ['an update that fails', [{ updateResponse: { protocolInstanceId: 'earlier', rejected: { message: 'no' } } }]],
  ['a marker', [{ setPatchMarker: { patchId: 'unread-1-sealed', deprecated: false } }]],
  ['search attributes', [{ upsertWorkflowSearchAttributes: {} }]],
  ['a memo', [{ modifyWorkflowProperties: {} }]],
  ['an end', [{ completeWorkflowExecution: {} }]],
  ['a failure', [{ failWorkflowExecution: {} }]],
  ['a cancellation of the execution', [{ cancelWorkflowExecution: {} }]],
  ['a next execution', [{ continueAsNewWorkflowExecution: {} }]],
  ['one that lasts among those that do not', [rejected, startTimer(1), startTimer(2), cancelTimer(1)]],
])('%s becomes an event', (_name, commands) => expect(leavesEvent(commands, ACCEPTED)).toBe(true));

test.each<[string, readonly Command[]]>([
  ['nothing', []],
  ['a rejected update', [rejected, rejected]],
  ['a timer that is cancelled at once', [startTimer(3), cancelTimer(3)]],
  ['an activity that is cancelled at once', [scheduleActivity(3), requestCancelActivity(3)]],
  ['a cancellation of what may have started in this task', [cancelTimer(1), requestCancelActivity(2)]],
  ['what another build may issue', [{ cancelSignalWorkflow: { seq: 1 } }]],
])('%s becomes none, or perhaps none', (_name, commands) => expect(leavesEvent(commands, ACCEPTED)).toBe(false));

/** What the SDK's core keeps of such a list, if all that it cancels was started by the list. */
function kept(commands: readonly Command[]): readonly Command[] {
  return commands.filter(
    ({ startTimer: timer, scheduleActivity: activity, cancelTimer: ended, requestCancelActivity: asked }) =>
      !ended &&
      !asked &&
      !(timer && commands.some(({ cancelTimer: other }) => other?.seq === timer.seq)) &&
      !(activity && commands.some(({ requestCancelActivity: other }) => other?.seq === activity.seq)),
  );
}

test('a list becomes an event exactly if something of it is not cancelled in it', () => {
  const seq = fc.integer({ min: 1, max: 3 });
  const command = fc.oneof(
    ...[startTimer, cancelTimer, scheduleActivity, requestCancelActivity].map((make) => seq.map(make)),
  );
  fc.assert(
    fc.property(fc.array(command), (commands) =>
      expect(leavesEvent(commands, ACCEPTED)).toBe(kept(commands).length > 0),
    ),
  );
});

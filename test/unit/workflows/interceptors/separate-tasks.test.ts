// A workflow task that leaves nothing gets a command, and a replay gives it the same one (INV-D1).
import fc from 'fast-check';
import { afterEach, expect, test } from '@jest/globals';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW, TICKET_WORKFLOW } from '../../../../contracts/names.ts';
import {
  type Command,
  interceptors,
  leavesEvent,
  MARKER,
  REMOVED,
  Tasks,
} from '../../../../workflows/interceptors/separate-tasks.ts';
import { forAll } from '../../../support/for-all.ts';

const startTimer = (seq: number): Command => ({ startTimer: { seq } });
const cancelTimer = (seq: number): Command => ({ cancelTimer: { seq } });
const scheduleActivity = (seq: number): Command => ({ scheduleActivity: { seq } });
const requestCancelActivity = (seq: number): Command => ({ requestCancelActivity: { seq } });
const ACCEPTED: ReadonlySet<string> = new Set(['earlier']);
const acceptedNow: Command = { updateResponse: { protocolInstanceId: 'u', accepted: {} } };
const rejected: Command = { updateResponse: { protocolInstanceId: 'other', rejected: { message: 'no' } } };

test.each<[string, readonly Command[]]>([
  ['a timer', [startTimer(1)]],
  ['an activity', [scheduleActivity(1)]],
  ['a timer beside the end of another', [startTimer(1), cancelTimer(2)]],
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
  ['what the task may cancel yet', [startTimer(3), scheduleActivity(4), requestCancelActivity(2)]],
  ['a cancellation of what may have started in this task', [cancelTimer(1), requestCancelActivity(2)]],
  ['what another build may issue', [{ cancelSignalWorkflow: { seq: 1 } }]],
])('%s becomes none, or perhaps none', (_name, commands) => expect(leavesEvent(commands, ACCEPTED)).toBe(false));

type Job = 'init' | 'event' | 'update' | 'query';

interface Part {
  readonly jobs: readonly Job[];
  readonly commands: readonly Command[];
}

/** Parts of one workflow task: a cancelled activity gives the run another turn. */
type Task = readonly Part[];

const JOBS = {
  init: { initializeWorkflow: {} },
  event: { signalWorkflow: {} },
  update: { doUpdate: {} },
  query: { queryWorkflow: {} },
};

/** What an execution leaves, part by part. `isMarkedAt`: absent for one that is live from here on. */
function left(history: readonly Task[], isMarkedAt?: (at: number) => boolean): readonly (readonly Command[])[] {
  let replayed: Command[] = [];
  let at = 0;
  const own = new Tasks(() => {
    const isMarked = isMarkedAt?.(at) === true;
    if (isMarked) replayed = [MARKER];
    return isMarked;
  });
  return history.flatMap((parts, index) =>
    parts.map(({ jobs, commands }) => {
      at = index;
      replayed = [];
      const isReplaying = isMarkedAt !== undefined;
      const activation = { jobs: jobs.map((job) => JOBS[job]), historyLength: 3 + 3 * index, isReplaying };
      own.begin({ activation, batchIndex: 0 });
      return own.end([...replayed, ...commands]);
    }),
  );
}

const EMPTY: Task = [{ jobs: ['event'], commands: [] }];

test('the first task that leaves nothing leaves the marker, each later one a memo', () =>
  expect(left([[{ jobs: ['init'], commands: [scheduleActivity(1)] }], EMPTY, EMPTY, EMPTY])).toEqual([
    [scheduleActivity(1)],
    [MARKER],
    [REMOVED],
    [REMOVED],
  ]));

test('the marker comes first, since other commands may become events as well', () =>
  expect(
    left([[{ jobs: ['event'], commands: [cancelTimer(1)] }], [{ jobs: ['event'], commands: [cancelTimer(2)] }]]),
  ).toEqual([
    [MARKER, cancelTimer(1)],
    [cancelTimer(2), REMOVED],
  ]));

test('a later part of a task adds nothing: it may come after the end', () => {
  const end: Command = { cancelWorkflowExecution: {} };
  const task: Task = [
    { jobs: ['event'], commands: [requestCancelActivity(1), end] },
    { jobs: ['event'], commands: [] },
  ];
  expect(left([task])).toEqual([[requestCancelActivity(1), end], []]);
  expect(left([EMPTY, task])).toEqual([[MARKER], [requestCancelActivity(1), end], []]);
});

test('a run without the marker may have been joined for the update that comes with an event', () => {
  const decided: Task = [{ jobs: ['event', 'update'], commands: [acceptedNow] }];
  expect(left([decided, decided])).toEqual([[MARKER, acceptedNow], [acceptedNow]]);
  // One that starts with an update has no task before it.
  expect(left([[{ jobs: ['init', 'update'], commands: [acceptedNow] }]])).toEqual([[acceptedNow]]);
});

test.each<[string, Task]>([
  ['a query', [{ jobs: ['query'], commands: [] }]],
  ['an update that is rejected', [{ jobs: ['update'], commands: [rejected] }]],
  ['nothing for the workflow', [{ jobs: [], commands: [] }]],
])('a task that brings %s leaves nothing', (_name, task) =>
  expect(left([EMPTY, task]).at(-1)).toEqual(task[0]?.commands),
);

test('the failure of an update that was accepted is an event, its rejection none', () => {
  const failed: Command = { updateResponse: { protocolInstanceId: 'u', rejected: { message: 'no' } } };
  const accepting: Task = [{ jobs: ['update'], commands: [acceptedNow] }];
  const answered: Task = [{ jobs: ['event'], commands: [failed] }];
  expect(left([EMPTY, accepting, answered, answered])).toEqual([[MARKER], [acceptedNow], [failed], [failed, REMOVED]]);
});

test('a replay of a history that an older build began leaves nothing before the marker', () =>
  expect(left([EMPTY, EMPTY, EMPTY], (at) => at === 2)).toEqual([[], [], [MARKER]]));

// One command of each kind, in tasks that bring events, updates or both, with one part or two.
const seq = fc.integer({ min: 1, max: 3 });
const command = fc.oneof(
  ...[startTimer, cancelTimer, scheduleActivity, requestCancelActivity].map((make) => seq.map(make)),
  fc.constantFrom<Command>(acceptedNow, { upsertWorkflowSearchAttributes: {} }),
);
const task: fc.Arbitrary<Task> = fc
  .record({
    jobs: fc.constantFrom<readonly Job[]>(['event'], ['event', 'update'], ['update'], ['event', 'event']),
    commands: fc.array(command, { maxLength: 3 }),
    isRejected: fc.boolean(),
    later: fc.option(fc.array(command, { maxLength: 2 }), { nil: undefined }),
  })
  .map(({ jobs, commands, isRejected, later }) => [
    // A task that brings an update alone does something only if that is accepted.
    jobs.includes('event')
      ? { jobs, commands: isRejected && jobs.includes('update') ? [...commands, rejected] : commands }
      : { jobs, commands: isRejected ? [rejected] : [acceptedNow, ...commands] },
    ...(later === undefined || !jobs.includes('event') ? [] : [{ jobs: ['event' as const], commands: later }]),
  ]);

/** The history as a replay sees it: rejected updates are in none. */
function replayedFrom(history: readonly Task[]): readonly Task[] {
  return history.map((parts) =>
    parts.map(({ jobs, commands }) => {
      const isRejected = commands.includes(rejected);
      return {
        jobs: isRejected ? jobs.filter((job) => job !== 'update') : jobs,
        commands: commands.filter((each) => each !== rejected),
      };
    }),
  );
}

test('a replay leaves what was left live, wherever it stops being one', () =>
  forAll(fc.array(task, { maxLength: 6 }), (history) => {
    const live = left(history).map((commands) => commands.filter((each) => each !== rejected));
    const parts = history.flatMap((each, index) => each.map(() => index));
    const marked = parts[live.findIndex((commands) => commands.includes(MARKER))];
    expect(left(replayedFrom(history), (at) => at === marked)).toEqual(live);
  }));

test('each task that brings an event leaves something that lasts', () =>
  forAll(fc.array(task, { maxLength: 6 }), (history) => {
    const all = left(history);
    const firsts = history.map((parts, index) => ({ parts, at: history.slice(0, index).flat().length }));
    for (const { parts, at } of firsts)
      if (parts[0]?.jobs.includes('event')) expect(leavesEvent(all[at] ?? [], new Set())).toBe(true);
  }));

// Sound: the part of the SDK's state that says which workflow runs.
const sdk = globalThis as { __TEMPORAL_ACTIVATOR__?: { info: { workflowType: string } } };
afterEach(() => void delete sdk.__TEMPORAL_ACTIVATOR__);

test.each<[string, readonly Command[]]>([
  [RUN_WORKFLOW, [MARKER]],
  [CATALOG_WORKFLOW, [MARKER]],
  [TICKET_WORKFLOW, []],
  [DIGEST_WORKFLOW, []],
  ['workflowOfOthers', []],
])('a task of %s that had nothing to do leaves %j', (workflowType, commands) => {
  sdk.__TEMPORAL_ACTIVATOR__ = { info: { workflowType } };
  const { internals: [own] = [] } = interceptors();
  const jobs = [{ signalWorkflow: { signalName: 'nudge' } }];
  own?.activate?.({ activation: { jobs, historyLength: 3 }, batchIndex: 0 }, () => undefined);
  expect(own?.concludeActivation?.({ commands: [] }, (input) => input)).toEqual({ commands });
});

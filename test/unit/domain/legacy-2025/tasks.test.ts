/** A call that its server works on as a task: when it is asked about, when it is given up, and what is seen of it meanwhile. */
import { expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { PollResult } from '../../../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import {
  isOverdue,
  isTooLong,
  shownTask,
  taskAsked,
  taskBegun,
  tasksOf,
} from '../../../../domain/legacy-2025/tasks.ts';
import { dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf, type OnTask, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
const SEALED = { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' };
const MINUTE = 60_000;
const allowed = judgedRun(undefined, () => ({ verdict: allowVerdict() }));

type Begun = Extract<DispatchResult, { kind: 'task' }>;
function begun(over: Partial<Begun['task']> = {}, token?: Begun['token']): Begun {
  const until = new Date(START + 60 * MINUTE).toISOString();
  const task = { sealed: SEALED, sentAt: new Date(START).toISOString(), until, ...over };
  return { kind: 'task', task, ...defined({ token }) };
}

function sent(): Run {
  const change = dispatched(allowed, CALL);
  if (change === undefined) throw new Error('it may not be sent');
  return change.run;
}

function onTask(run: Run): OnTask {
  const state = callOf(run, CALL);
  if (state?.status !== 'on-task') throw new Error('there is no task');
  return state;
}

function started(over: Partial<Begun['task']> = {}, now = START): Run {
  return taskBegun(sent(), CALL, begun(over), now).run;
}

const WORKING: PollResult = { kind: 'working' };

test('only an activity that says so makes a task of a call, and only of one in flight', () => {
  expect(tasksOf(sent())).toEqual([]);
  expect(taskBegun(allowed, CALL, begun(), START)).toEqual({ run: allowed, facts: [] });
  expect(taskAsked(sent(), CALL, WORKING, START).run).toEqual(sent());
  expect(taskAsked(sent(), 't9.c9', WORKING, START).facts).toEqual([]);
  const change = taskBegun(sent(), CALL, begun(), START);
  expect(change.facts).toEqual([
    { kind: 'task.begun', callId: CALL, attempt: 1, until: new Date(START + 60 * MINUTE).toISOString() },
  ]);
  expect(callOf(change.run, CALL)).toMatchObject({ status: 'on-task', attempts: 1, task: { polls: 0 } });
});

test('INV-D2: it is asked about rarer the longer it takes, and says nothing to the ledger', () => {
  let run = started();
  const waits: number[] = [];
  for (let now = START; !isOverdue(onTask(run), now);) {
    const { next } = onTask(run).task;
    waits.push(next - now);
    now = next;
    const asked = taskAsked(run, CALL, WORKING, now);
    expect(asked.facts).toEqual([]);
    run = asked.run;
  }
  expect(waits[0]).toBe(5_000);
  expect(Math.max(...waits)).toBe(300_000);
  // An hour of one task; each is eleven events.
  expect(waits.length).toBeLessThan(60);
  expect(onTask(run).task.polls).toBe(waits.length);
});

test.each([
  ['0', 0, 1_000],
  ['one that is nearly none', 0.001, 1_000],
  ['as it is wanted', 20_000, 20_000],
  ['huge', Number.MAX_VALUE, 300_000],
])('a poll interval of the server that is %s is bounded', (_, pollMs, wait) => {
  expect(onTask(started({ pollMs })).task.next - START).toBe(wait);
});

test('it is asked about before it is given up, and never after', () => {
  const until = (ms: number): Partial<Begun['task']> => ({
    until: new Date(START + ms).toISOString(),
    pollMs: 300_000,
  });
  expect(onTask(started(until(100_000))).task.next - START).toBe(50_000);
  expect(onTask(started(until(1_500))).task.next - START).toBe(1_000);
  expect(onTask(started(until(600))).task.next - START).toBe(600);
  // Over when it began: it is asked about once all the same.
  const over = onTask(started(until(0)));
  expect(over.task.next).toBe(START + 1);
  expect(isOverdue(over, over.task.next)).toBe(true);
  expect(isOverdue(over, START - 1)).toBe(false);
});

test('what the server says is shown, and is its newest word; what it wants between two questions is kept', () => {
  const run = taskAsked(
    started({ message: 'digging' }),
    CALL,
    { kind: 'working', pollMs: 7_000, message: 'half way' },
    START,
  ).run;
  expect(onTask(run).task).toMatchObject({ polls: 1, pollMs: 7_000, message: 'half way', next: START + 7_000 });
  const silent = taskAsked(run, CALL, WORKING, START).run;
  expect(onTask(silent).task).toMatchObject({ polls: 2, pollMs: 7_000 });
  expect(shownTask(onTask(silent))).not.toHaveProperty('message');
  expect(shownTask(onTask(run))).toEqual({
    callId: CALL,
    server: 'files',
    tool: expect.any(String),
    since: new Date(START).toISOString(),
    next: new Date(START + 7_000).toISOString(),
    until: new Date(START + 60 * MINUTE).toISOString(),
    polls: 1,
    message: 'half way',
  });
});

test('a server that cannot be asked is asked again, and later where it asks for time', () => {
  const out = taskAsked(started(), CALL, { kind: 'unreached', message: 'no connection' }, START).run;
  expect(onTask(out).task).toMatchObject({ polls: 1, message: 'no connection', next: START + 5_000 });
  const later = taskAsked(out, CALL, { kind: 'unreached', message: 'busy', retryAfterMs: 90_000 }, START).run;
  expect(onTask(later).task.next).toBe(START + 90_000);
});

test('people read it, whatever its server writes into it', () => {
  const details = currentDetails('acting', started({ message: '[x](http://evil) **bold**' }));
  expect(details).toContain('worked on by servers as tasks');
  expect(details).not.toContain('**bold**');
  expect(currentDetails('acting', started())).toContain('at most: ');
  expect(currentDetails('acting', sent())).not.toContain('as tasks');
});

test('what becomes of it ends it; a further dispatch begins another one', () => {
  const token = { strategy: 'given', jti: 'j1' };
  const run = taskBegun(sent(), CALL, begun({}, token), START).run;
  const over = ended(run, CALL, { kind: 'cancelled', reason: 'stopped' });
  expect(over.facts).toMatchObject([{ kind: 'outcome', outcome: 'cancelled', token }]);
  expect(tasksOf(over.run)).toEqual([]);
  const again = returned(run, CALL, { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' });
  expect(callOf(again.run, CALL)).not.toHaveProperty('task');
});

test('INV-D2: an execution that has no next one keeps room for its end', () => {
  const small = { historyLength: 39_999, historySize: 40 * 1_048_576 - 1 };
  expect(isTooLong(small)).toBe(false);
  expect(isTooLong({ ...small, historyLength: 40_000 })).toBe(true);
  expect(isTooLong({ ...small, historySize: 40 * 1_048_576 })).toBe(true);
});

/** Changes that would lose what servers work on as tasks, or the answers of lost workers, where a run ends. */
import { never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

/** As `OTHER_COMMANDS`. */
export const TASK_COMMANDS: readonly Mutation[] = [
  {
    name: 'tasks are lost where a run is stopped as it hands over',
    noticedIn: 'agent-run.v2.task-stopped-rolling',
    change: never('isToEndHere', 'tasksOf($_).length > 0'),
  },
  {
    name: 'the answer of a lost worker is not asked for where a stop lets its call finish',
    noticedIn: 'agent-run.v2.resuming-stopped',
    change: replaced(
      'askForAnswer',
      '$live.flights.consideredCancelled || $_.timeIsUp',
      '$live.work.consideredCancelled',
    ),
  },
];

/** As `OTHER_CONTENT`. */
export const TASK_CONTENT: readonly Mutation[] = [
  {
    name: 'what a stop lets finish is given up at once',
    noticedIn: 'agent-run.v2.task-finishing',
    change: replaced('MOST_EVENTS', '40_000', '40'),
  },
  {
    name: 'a build with pauses and without tasks takes up a run with a task',
    noticedIn: 'agent-run.v2.task-continued-first',
    change: replaced('carryVersionOf', 'TASK_CARRY_VERSION', 'PAUSED_CARRY_VERSION'),
  },
  {
    name: 'a question about a task waits for a worker for ever',
    noticedIn: 'agent-run.v2.task',
    change: removed('pollActivities', 'scheduleToStartTimeout: $_'),
  },
  {
    name: 'whoever lists tools is not told that the run waits for tasks',
    noticedIn: 'agent-run.v2.task',
    change: replaced('listingInput', 'defined({ tasks })', 'defined({})'),
  },
];

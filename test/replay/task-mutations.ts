/** Changes that would lose what servers work on as tasks, or the answers of lost workers, where a run ends. */
import { never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

/** As `OTHER_COMMANDS`. */
export const TASK_COMMANDS: readonly Mutation[] = [
  {
    name: 'tasks are lost where a run is stopped as it hands over',
    noticedIn: 'agent-run.task-stopped-rolling',
    change: never('isToEndHere', 'tasksOf($_).length > 0'),
  },
  {
    name: 'the answer of a lost worker is not asked for where a stop lets its call finish',
    noticedIn: 'agent-run.resuming-stopped',
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
    noticedIn: 'agent-run.task-finishing',
    change: replaced('MOST_EVENTS', '40_000', '40'),
  },
  {
    name: 'a question about a task waits for a worker for ever',
    noticedIn: 'agent-run.task',
    change: removed('pollActivities', 'scheduleToStartTimeout: $_'),
  },
  {
    name: 'whoever lists tools is not told that the run waits for tasks',
    noticedIn: 'agent-run.task',
    change: replaced('listingInput', 'defined({ tasks })', 'defined({})'),
  },
];

/** Changes that would lose what servers work on as tasks, or the answers of lost workers, where a run ends. */
import type { Mutation } from './mutant.ts';

/** As `OTHER_COMMANDS`. */
export const TASK_COMMANDS: readonly Mutation[] = [
  {
    name: 'tasks are lost where a run is stopped as it hands over',
    noticedIn: 'agent-run.v2.task-stopped-rolling',
    file: 'workflows/run/hand-over.ts',
    find: 'return isCancellation(error) && tasksOf(live.run).length > 0;',
    put: 'return isCancellation(error) && tasksOf(live.run).length < 0;',
  },
  {
    name: 'the answer of a lost worker is not asked for where a stop lets its call finish',
    noticedIn: 'agent-run.v2.resuming-stopped',
    file: 'workflows/run/call.ts',
    find: 'if (live.flights.consideredCancelled || live.timeIsUp) return lost;',
    put: 'if (live.work.consideredCancelled) return lost;',
  },
];

/** As `OTHER_CONTENT`. */
export const TASK_CONTENT: readonly Mutation[] = [
  {
    name: 'what a stop lets finish is given up at once',
    noticedIn: 'agent-run.v2.task-finishing',
    file: 'domain/legacy-2025/tasks.ts',
    find: 'const MOST_EVENTS = 40_000;',
    put: 'const MOST_EVENTS = 40;',
  },
  {
    name: 'a build with pauses and without tasks takes up a run with a task',
    noticedIn: 'agent-run.v2.task-continued-first',
    file: 'domain/run/carry.ts',
    find: 'if (calls.some(isOnTask)) return TASK_CARRY_VERSION;',
    put: 'if (calls.some(isOnTask)) return PAUSED_CARRY_VERSION;',
  },
  {
    name: 'a question about a task waits for a worker for ever',
    noticedIn: 'agent-run.v2.task',
    file: 'workflows/run/activities.ts',
    find: ": { scheduleToStartTimeout: '5m' }),",
    put: ': {}),',
  },
  {
    name: 'whoever lists tools is not told that the run waits for tasks',
    noticedIn: 'agent-run.v2.task',
    file: 'workflows/run/listing.ts',
    find: '    ...(prepared.tasks === undefined ? {} : { tasks: prepared.tasks }),\n',
    put: '',
  },
];

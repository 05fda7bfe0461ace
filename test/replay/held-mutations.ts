/** Mutations of how calls wait for their server, and of where they queue. */
import type { Mutation } from './mutant.ts';

export const HELD_COMMANDS: readonly Mutation[] = [
  {
    name: 'a call that was held back is given up like one that failed',
    file: 'domain/held.ts',
    find: 'return attempts - (holds?.count ?? 0);',
    put: 'return attempts + 0 * (holds?.count ?? 0);',
  },
  {
    name: 'a call that waits for its server keeps the run from continuing',
    file: 'domain/held.ts',
    find: "return (state.status === 'cleared' || state.status === 'approved') && state.held !== undefined;",
    put: "return state.status === 'approved' && state.held !== undefined;",
  },
];

export const HELD_CONTENT: readonly Mutation[] = [
  {
    name: 'a call waits longer for its server than it was told',
    file: 'domain/held.ts',
    find: 'Math.min(now + retryAfterMs, ',
    put: 'Math.min(now + 2 * retryAfterMs, ',
  },
  {
    name: 'calls queue as nobody',
    file: 'workflows/activity-stubs.ts',
    find: 'return priority === undefined ? {} : { priority };',
    put: "return priority === undefined || priority.fairnessKey !== '' ? {} : { priority };",
  },
];

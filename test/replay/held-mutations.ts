/** Mutations of how calls wait for their server, and of where they queue. */
import type { Mutation } from './mutant.ts';

export const HELD_COMMANDS: readonly Mutation[] = [
  {
    name: 'waiting for a server counts as an attempt',
    noticedIn: 'agent-run.v2.held-first',
    file: 'workflows/run/call.ts',
    find: 'if (isHolding(result)) return',
    put: "if (isHolding(result) && result.code === '') return",
  },
  {
    name: 'a call that waits for its server keeps the run from continuing',
    noticedIn: 'agent-run.v2.held-first',
    file: 'domain/request/throttling.ts',
    find: "return (state.status === 'cleared' || state.status === 'approved') && state.held !== undefined;",
    put: "return state.status === 'approved' && state.held !== undefined;",
  },
  {
    name: 'a call waits longer for its server than it was told',
    noticedIn: 'agent-run.v2.held-sent',
    file: 'domain/request/throttling.ts',
    find: 'Math.min(now + retryAfterMs, ',
    put: 'Math.min(now + 2 * retryAfterMs, ',
  },
];

export const HELD_CONTENT: readonly Mutation[] = [
  {
    name: 'calls queue as nobody',
    noticedIn: 'agent-run.v2.lost-sent-again',
    file: 'workflows/run/activities.ts',
    find: 'return priority === undefined ? {} : { priority };',
    put: "return priority === undefined || priority.fairnessKey !== '' ? {} : { priority };",
  },
];

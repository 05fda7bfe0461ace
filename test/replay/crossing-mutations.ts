/** Changes of what becomes of a run that is stopped, cancelled or interrupted while something is under way; see `mutations.ts`. */
import type { Mutation } from './mutant.ts';

export const CROSSING_COMMANDS: readonly Mutation[] = [
  {
    name: 'a run that is stopped goes on checking its spec',
    noticedIn: 'agent-run.v3.preparing-stopped',
    file: 'workflows/agent-run.ts',
    find: 'await live.work.run(() => prepare(live));',
    put: 'await prepare(live);',
  },
  {
    name: 'a run that is cancelled before it began is stored',
    noticedIn: 'agent-run.v3.preparing-cancelled',
    file: 'workflows/agent-run.ts',
    find: "if (ending.status === 'cancelled' && !live.isPrepared)",
    put: "if (ending.status === 'cancelled' && live.isPrepared)",
  },
  {
    name: 'a model goes on for a run that is stopped',
    noticedIn: 'agent-run.v3.thinking-stopped',
    file: 'workflows/activity-stubs.ts',
    find: "heartbeatTimeout: '60s',\n    cancellationType: ActivityCancellationType.TRY_CANCEL,",
    put: "heartbeatTimeout: '60s',\n    cancellationType: ActivityCancellationType.ABANDON,",
  },
  {
    name: 'what a model proposes before it has read a message that interrupts is asked',
    noticedIn: 'agent-run.v3.thinking-interrupted-ended',
    file: 'workflows/turn.ts',
    find: '  live.commit(interrupted(live.run));\n',
    put: '',
  },
  {
    name: 'an edit is judged for a run that ends',
    noticedIn: 'agent-run.v3.judging-cancelled',
    file: 'workflows/agent-run.ts',
    find: "('The run was cancelled before it began.');\n  if (live.judging.size > 0) await answerEditors(live);\n",
    put: "('The run was cancelled before it began.');\n",
  },
];

/** Changes of what becomes of a run that is stopped, cancelled or interrupted while something is under way; see `mutations.ts`. */
import { removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const CROSSING_COMMANDS: readonly Mutation[] = [
  {
    name: 'a run that is stopped goes on checking its spec',
    noticedIn: 'agent-run.preparing-stopped',
    change: replaced('agentRun', 'await live.work.run(() => begin(live));', 'await begin(live);'),
  },
  {
    name: 'a run that is cancelled before it began is stored',
    noticedIn: 'agent-run.preparing-cancelled',
    change: replaced('end', '!live.isPrepared', 'live.isPrepared'),
  },
  {
    name: 'a model goes on for a run that is stopped',
    noticedIn: 'agent-run.thinking-stopped',
    change: replaced('modelActivities', 'ActivityCancellationType.TRY_CANCEL', 'ActivityCancellationType.ABANDON'),
  },
  {
    name: 'what a model proposes before it has read a message that interrupts is asked',
    noticedIn: 'agent-run.thinking-interrupted-ended',
    change: replaced('LiveRun.commit', 'this.#apply(interrupted($_))', 'undefined'),
  },
  {
    name: 'an edit is judged for a run that ends',
    noticedIn: 'agent-run.judging-cancelled',
    change: removed('end', 'if ($_) await answerEditors(live);'),
  },
];

/** Mutations of how calls wait for their server, and of where they queue. */
import { never, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const HELD_COMMANDS: readonly Mutation[] = [
  {
    name: 'waiting for a server counts as an attempt',
    noticedIn: 'agent-run.held-first',
    change: never('conclude', 'isThrottling($_)'),
  },
  {
    name: 'a call that waits for its server keeps the run from continuing',
    noticedIn: 'agent-run.held-first',
    change: replaced('AT_REST', "'throttled'", "'settled'"),
  },
  {
    name: 'a call waits longer for its server than it was told',
    noticedIn: 'agent-run.held-sent',
    change: replaced('throttled', 'Math.min($now + $after, $most)', 'Math.min($now + 2 * $after, $most)'),
  },
];

export const HELD_CONTENT: readonly Mutation[] = [
  {
    name: 'calls queue as nobody',
    noticedIn: 'agent-run.lost-sent-again',
    change: replaced('optionsOf', '{ $$rest, priority }', '{ $$rest }'),
  },
];

/** Changes that would lose, or do twice, what was done in a stretch (docs/adr/0058). */
import { always, never, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

/** As `OTHER_COMMANDS`. */
export const STRETCH_COMMANDS: readonly Mutation[] = [
  {
    name: 'a lost worker ends its run',
    noticedIn: 'agent-run.stretch-lost-sent-again',
    change: never('stretched', 'lost !== undefined'),
  },
  {
    name: 'the record of a lost worker is not taken over',
    noticedIn: 'agent-run.stretch-lost-sent-again',
    change: never('lostRecord', "isAnswerOf('stretch', $_)"),
  },
  {
    name: 'a worker that is lost before anything is on record ends its run',
    noticedIn: 'agent-run.stretch-lost-early',
    change: replaced('lostRecord', '{ turns: [] }', 'undefined'),
  },
  {
    name: 'a call that was on record without a result is not sent again',
    noticedIn: 'agent-run.stretch-lost',
    change: never('takeOver', '!isConcluded($_)'),
  },
  {
    name: 'a turn is closed while a call of it is under way',
    noticedIn: 'agent-run.stretch-lost',
    change: always('takeOver', 'isOver($_)'),
  },
  {
    name: 'a message that interrupts does not end a stretch',
    noticedIn: 'agent-run.stretch-interrupted-held',
    change: never('LiveRun.commit', 'interrupt === true'),
  },
  {
    name: 'an interruption before the stretch begins cancels the run',
    noticedIn: 'agent-run.stretch-unbegun-interrupted',
    change: never('stretched', 'isWithdrawn($_)'),
  },
  {
    name: 'what a stretch has done when it is ended is not waited for',
    noticedIn: 'agent-run.stretch-stopped',
    change: replaced(
      'stretchActivities',
      'ActivityCancellationType.WAIT_CANCELLATION_COMPLETED',
      'ActivityCancellationType.TRY_CANCEL',
    ),
  },
  {
    name: 'a run whose stretches are bounded goes on step by step',
    noticedIn: 'agent-run.stretched',
    change: never('think', 'bounds !== undefined'),
  },
  {
    name: 'what the first activity has done is done again',
    noticedIn: 'agent-run.begun',
    change: never('think', 'begun !== undefined'),
  },
  {
    name: 'tools that the first activity has listed are listed again',
    noticedIn: 'agent-run.begun',
    change: never('list', '$_ !== undefined'),
  },
  {
    name: 'what a lost first activity has done is done again',
    noticedIn: 'agent-run.begun-lost',
    change: never('begin', 'prepared !== undefined'),
  },
  {
    name: 'a first activity that is lost before anything is on record ends its run',
    noticedIn: 'agent-run.begun-lost-early',
    change: always('begin', '$_ >= MOST_BEGINNINGS'),
  },
];

/** As `OTHER_CONTENT`. */
export const STRETCH_CONTENT: readonly Mutation[] = [
  {
    name: 'a turn that is over stays open, and the model does not read its results',
    noticedIn: 'agent-run.stretched',
    change: never('takeOver', 'isOver($_)'),
  },
  {
    name: 'a stretch takes more turns than its execution has',
    noticedIn: 'agent-run.stretched-continued-first',
    change: replaced('inputOf', 'Math.min($turns, $_)', '$turns'),
  },
  {
    name: 'calls leave in a stretch for servers of another queue',
    noticedIn: 'agent-run.stretch-unbegun',
    change: always('stretchServers', 'taskQueue === undefined'),
  },
  {
    name: 'a stretch does not know what its run has spent',
    noticedIn: 'agent-run.stretched',
    change: replaced('stretchState', 'defined({ spent, $$rest })', 'defined({ $$rest })'),
  },
  {
    name: 'the ledger has the time at which it was told of a call',
    noticedIn: 'agent-run.stretched',
    change: replaced('timeOf', 'Math.min($now, $_)', '$now'),
  },
  {
    name: 'calls that ended in a stretch are forgotten',
    noticedIn: 'agent-run.stretched',
    change: replaced('takeOver', 'deedsOf($_)', '[]'),
  },
];

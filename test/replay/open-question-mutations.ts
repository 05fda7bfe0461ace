/** Mutations of how a call in flight asks people on the open connection of its server, and goes on. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const OPEN_QUESTION_COMMANDS: readonly Mutation[] = [
  {
    name: 'nobody runs the deadline of a question on an open connection',
    noticedIn: 'agent-run.open-question',
    change: removed('take', 'void $_.run($_);'),
  },
  {
    name: 'a question stays open when its call has ended',
    noticedIn: 'agent-run.open-question-lost',
    change: removed('dispatch', 'closeQuestion($$);'),
  },
];

export const OPEN_QUESTION_CONTENT: readonly Mutation[] = [
  {
    name: 'the ledger does not say what a server was told to what it asked',
    noticedIn: 'agent-run.open-question-ended',
    change: replaced('dispatch', '$_.commit(elicitationTold($$))', 'undefined'),
  },
  {
    name: 'a dispatch that may wait for people has no more time than another',
    noticedIn: 'agent-run.open-question',
    change: replaced('sendCall', '$seconds + ($_.hold?.seconds ?? 0)', '$seconds'),
  },
  {
    name: 'a dispatch is told that it may wait longer for people than its run was prepared for',
    noticedIn: 'agent-run.open-question',
    change: replaced('holdOf', '{ hold: { seconds } }', '{ hold: { seconds: seconds + 1 } }'),
  },
  {
    name: 'people have longer than the connection is held',
    noticedIn: 'agent-run.open-question',
    change: replaced('opened', 'Math.min($$times)', 'Math.max($$times)'),
  },
];

export const OPEN_QUESTION_REFUSALS: readonly Mutation[] = [
  {
    name: 'a worker that is lost asks people while its answer is asked for',
    noticedIn: 'agent-run.open-question-too-late',
    change: removed('UnderWay.during', '$_.then($$);'),
  },
  {
    name: 'a question that nobody answers keeps the next one from being asked',
    noticedIn: 'agent-run.open-question-second',
    change: replaced('flightOf', 'backInFlight($$)', 'undefined'),
  },
  {
    name: 'another dispatch than the one under way may ask',
    noticedIn: 'agent-run.open-question-answered',
    change: always('admitElicitation', '$_.attempts === $_'),
  },
  {
    name: 'questions on an open connection come in any order',
    noticedIn: 'agent-run.open-question-answered',
    change: replaced('admitElicitation', '$round <= ($_ ?? 0)', '$round === 0'),
  },
  {
    name: 'nobody is told that a question on an open connection has expired',
    noticedIn: 'agent-run.open-question-expired',
    change: never('refuseClosed', "$_?.kind === 'expired'"),
  },
];

/** Changes that would break runs that wait to hear what became of a call. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';
import { OPEN_QUESTION_COMMANDS, OPEN_QUESTION_CONTENT, OPEN_QUESTION_REFUSALS } from './open-question-mutations.ts';

/** As `OTHER_COMMANDS`. */
export const PAUSE_COMMANDS: readonly Mutation[] = [
  ...OPEN_QUESTION_COMMANDS,
  {
    name: 'what results have linked to is forgotten',
    noticedIn: 'agent-run.linked-continued-first',
    change: replaced('withLinks', '{ ...$run, links: $_ }', '$run'),
  },
  {
    name: 'what nobody has linked to may be read',
    noticedIn: 'agent-run.linked-continued-first',
    change: always('withoutUnlinked', '$_?.tool !== READ_RESOURCE'),
  },
  {
    name: 'tasks are waited for by nobody',
    noticedIn: 'agent-run.task-continued-first',
    change: replaced('conclude', '$live.commit(taskBegun($$))', 'undefined'),
  },
  {
    name: 'nobody is asked what became of a call',
    noticedIn: 'agent-run.lost-sent-again',
    change: never('LiveRun.asksAbout', '$_?.includes($_) === true'),
  },
  {
    name: 'what a person recorded is sent again all the same',
    noticedIn: 'agent-run.lost-answered',
    change: never('nextOf', "$_.kind !== 'retry'"),
  },
  {
    name: 'a call that is sent again is asked for consent anew',
    noticedIn: 'agent-run.lost-sent-again',
    change: replaced(
      'sendable',
      "{ status: 'approved', ...$resolved, consent }",
      "{ status: 'waiting-for-consent', ...$resolved, request: consent.request }",
    ),
  },
  {
    name: 'what is asked is no part of what is shown',
    noticedIn: 'agent-run.lost-sent-again',
    change: removed('requestDigest', 'about: $_'),
  },
  {
    name: 'the answer of a lost worker is asked for nowhere',
    noticedIn: 'agent-run.handed-on',
    change: never('dispatch', 'isResumable($$)'),
  },
  {
    name: 'a call whose worker is lost is handed to another one that sends it again',
    noticedIn: 'agent-run.handed-on',
    change: replaced('askForAnswer', 'resumeActivities($$how)', '{ resumeCall: callActivities($$how).callTool }'),
  },
  {
    name: 'what a server asks is not put before people',
    noticedIn: 'agent-run.server-asks',
    change: replaced(
      'conclude',
      'askInput($live, $$)',
      "settle($live, callId, { kind: 'cancelled', reason: 'The server asks.' })",
    ),
  },
  {
    name: 'nobody is asked for the authorization that a server wants',
    noticedIn: 'agent-run.unauthorized',
    change: always('askAuthorization', "$_.kind !== 'failed'"),
  },
  {
    name: 'consent of one is enough where two must give it',
    noticedIn: 'agent-run.unconsented-ended',
    change: never('authorize', '!isMet($$)'),
  },
];

/** As `OTHER_CONTENT`. */
export const PAUSE_CONTENT: readonly Mutation[] = [
  ...OPEN_QUESTION_CONTENT,
  {
    name: 'a server is told no answer that people gave it before',
    noticedIn: 'agent-run.server-asks-ended',
    change: replaced('withProvided', 'provided: [...$_, $fresh]', 'provided: [$fresh]'),
  },
  {
    name: 'a server is not given its state back',
    noticedIn: 'agent-run.server-asks-again',
    change: replaced('legOf', '{ state }', '{}'),
  },
  {
    name: 'a worker is not told that it may leave where the answer comes',
    noticedIn: 'agent-run.handed-on',
    change: removed('dispatchInput', 'resumable: $_'),
  },
  {
    name: 'dispatch is not told who said that a call is sent again',
    noticedIn: 'agent-run.lost-sent-again',
    change: removed('dispatchInput', 'retry: $_'),
  },
  {
    name: 'the model takes what a person recorded for the result of the tool',
    noticedIn: 'agent-run.lost-ended',
    change: replaced(
      'recordedOutcome',
      "{ kind: 'succeeded', result: $said, $$ }",
      "{ kind: 'succeeded', result: $said }",
    ),
  },
  {
    name: 'dispatch is not given the grant that took the place of the first',
    noticedIn: 'agent-run.unauthorized-granted',
    change: removed('dispatchInput', '...proofsOf($$)'),
  },
  {
    name: 'a fresh grant stands for one call only',
    noticedIn: 'agent-run.unauthorized-granted',
    change: replaced('authorize', '$_ ? regranted($$) : $run', '$run'),
  },
  {
    name: 'dispatch is shown one consent where two were given',
    noticedIn: 'agent-run.unconsented-ended',
    change: removed('proofsOf', 'further: $_'),
  },
];

/** As `OTHER_REFUSALS`. */
export const PAUSE_REFUSALS: readonly Mutation[] = [
  ...OPEN_QUESTION_REFUSALS,
  {
    name: 'any answer fits what a server asks',
    noticedIn: 'agent-run.server-asks-continued',
    change: never('refuseProvision', '$_ !== undefined'),
  },
  {
    name: 'anybody may say what became of a call',
    noticedIn: 'agent-run.lost-continued',
    change: always('admitAnswer', 'mayDecide($$)'),
  },
  {
    name: 'an approval answers what became of a call',
    noticedIn: 'agent-run.lost-continued',
    change: always('admit', "$_.status === 'waiting-for-consent'"),
  },
  {
    name: 'consent is taken for a grant',
    noticedIn: 'agent-run.unauthorized',
    change: never('refuseAuthorization', '$_.kind !== $_.wants'),
  },
  {
    name: 'one person consents for two',
    noticedIn: 'agent-run.unconsented-counted',
    change: never('refuseSurplus', '$_ !== undefined'),
  },
];

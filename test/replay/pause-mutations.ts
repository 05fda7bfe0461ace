/** Changes that would break runs that wait to hear what became of a call. */
import { always, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';
import { OPEN_QUESTION_COMMANDS, OPEN_QUESTION_CONTENT, OPEN_QUESTION_REFUSALS } from './open-question-mutations.ts';

/** As `OTHER_COMMANDS`. */
export const PAUSE_COMMANDS: readonly Mutation[] = [
  ...OPEN_QUESTION_COMMANDS,
  {
    name: 'what results have linked to is forgotten',
    noticedIn: 'agent-run.v2.linked-continued-first',
    change: replaced('withLinks', '{ ...$run, links: $_ }', '$run'),
  },
  {
    name: 'what nobody has linked to may be read',
    noticedIn: 'agent-run.v2.linked-continued-first',
    change: always('withoutUnlinked', '$_?.tool !== READ_RESOURCE'),
  },
  {
    name: 'a read is denied that an earlier build has sent',
    noticedIn: 'agent-run.v2.linked-undenied',
    change: always('linkedOnly', "patched('links')"),
  },
  {
    name: 'a task is waited for whose call an earlier build has ended',
    noticedIn: 'agent-run.v2.task-not-waited',
    change: always('conclude', "patched('tasks')"),
  },
  {
    name: 'tasks are waited for by nobody',
    noticedIn: 'agent-run.v2.task-continued-first',
    change: replaced('conclude', "patched('tasks')", "patched('tasks') && false"),
  },
  {
    name: 'nobody is asked what became of a call',
    noticedIn: 'agent-run.v2.lost-sent-again',
    change: never('LiveRun.asksAbout', '$_?.includes($_) === true'),
  },
  {
    name: 'a call is asked about that an earlier build has ended',
    noticedIn: 'agent-run.v2.lost-sent-again',
    change: never('askOutcome', "!patched('pauses')"),
  },
  {
    name: 'what a person recorded is sent again all the same',
    noticedIn: 'agent-run.v2.lost-answered',
    change: never('nextOf', "$_.kind !== 'retry'"),
  },
  {
    name: 'a call that is sent again is asked for consent anew',
    noticedIn: 'agent-run.v2.lost-sent-again',
    change: replaced(
      'sendable',
      "{ status: 'approved', ...$resolved, consent }",
      "{ status: 'waiting-for-consent', ...$resolved, request: consent.request }",
    ),
  },
  {
    name: 'what is asked is no part of what is shown',
    noticedIn: 'agent-run.v2.lost-sent-again',
    change: removed('requestDigest', 'about: $_'),
  },
  {
    name: 'the answer of a lost worker is asked for nowhere',
    noticedIn: 'agent-run.v2.handed-on',
    change: never('dispatch', 'isResumable($$)'),
  },
  {
    name: 'a call whose worker is lost is handed to another one that sends it again',
    noticedIn: 'agent-run.v2.handed-on',
    change: replaced('askForAnswer', 'resumeActivities($$how)', '{ resumeCall: callActivities($$how).callTool }'),
  },
  {
    name: 'what a server asks is not put before people',
    noticedIn: 'agent-run.v2.server-asks',
    change: replaced(
      'conclude',
      'askInput($live, $$)',
      "settle($live, callId, { kind: 'cancelled', reason: 'The server asks.' })",
    ),
  },
  {
    name: 'nobody is asked for the authorization that a server wants',
    noticedIn: 'agent-run.v2.unauthorized',
    change: always('askAuthorization', "$_.kind !== 'failed'"),
  },
  {
    name: 'consent of one is enough where two must give it',
    noticedIn: 'agent-run.v2.unconsented-ended',
    change: never('authorize', '!isMet($$)'),
  },
];

/** As `OTHER_CONTENT`. */
export const PAUSE_CONTENT: readonly Mutation[] = [
  ...OPEN_QUESTION_CONTENT,
  {
    name: 'a server is told no answer that people gave it before',
    noticedIn: 'agent-run.v2.server-asks-ended',
    change: replaced('withProvided', 'provided: [...$_, $fresh]', 'provided: [$fresh]'),
  },
  {
    name: 'a server is not given its state back',
    noticedIn: 'agent-run.v2.server-asks-again',
    change: replaced('legOf', '{ state }', '{}'),
  },
  {
    name: 'a worker is not told that it may leave where the answer comes',
    noticedIn: 'agent-run.v2.task-not-waited',
    change: removed('dispatchInput', 'resumable: $_'),
  },
  {
    name: 'dispatch is not told who said that a call is sent again',
    noticedIn: 'agent-run.v2.lost-sent-again',
    change: removed('dispatchInput', 'retry: $_'),
  },
  {
    name: 'the model takes what a person recorded for the result of the tool',
    noticedIn: 'agent-run.v2.lost-ended',
    change: replaced(
      'recordedOutcome',
      "{ kind: 'succeeded', result: $said, $$ }",
      "{ kind: 'succeeded', result: $said }",
    ),
  },
  {
    name: 'dispatch is not given the grant that took the place of the first',
    noticedIn: 'agent-run.v2.unauthorized-granted',
    change: removed('dispatchInput', '...authorizationProofs($$)'),
  },
  {
    name: 'a fresh grant stands for one call only',
    noticedIn: 'agent-run.v2.unauthorized-granted',
    change: replaced('authorize', '$_ ? regranted($$) : $run', '$run'),
  },
  {
    name: 'dispatch is shown one consent where two were given',
    noticedIn: 'agent-run.v2.unconsented-ended',
    change: removed('proofsOf', 'further: $_'),
  },
];

/** As `OTHER_REFUSALS`. */
export const PAUSE_REFUSALS: readonly Mutation[] = [
  ...OPEN_QUESTION_REFUSALS,
  {
    name: 'any answer fits what a server asks',
    noticedIn: 'agent-run.v2.server-asks-continued',
    change: never('refuseProvision', '$_ !== undefined'),
  },
  {
    name: 'anybody may say what became of a call',
    noticedIn: 'agent-run.v2.lost-continued',
    change: always('admitAnswer', 'mayDecide($$)'),
  },
  {
    name: 'an approval answers what became of a call',
    noticedIn: 'agent-run.v2.lost-continued',
    change: always('admit', "$_.status === 'waiting-for-consent'"),
  },
  {
    name: 'consent is taken for a grant',
    noticedIn: 'agent-run.v2.unauthorized',
    change: never('refuseAuthorization', '$_.kind !== $_.wants'),
  },
  {
    name: 'one person consents for two',
    noticedIn: 'agent-run.v2.unconsented-counted',
    change: never('refuseConsent', '$_ !== undefined'),
  },
];

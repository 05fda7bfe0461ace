/** Changes that would break waiting runs, by the layer that must notice. */
import { CATALOG_COMMANDS, CATALOG_CONTENT, CATALOG_REFUSALS } from './catalog-mutations.ts';
import { always, never, removed, replaced } from './change.ts';
import { CROSSING_COMMANDS } from './crossing-mutations.ts';
import { DECISION_COMMANDS, DECISION_CONTENT, DECISION_REFUSALS } from './decision-mutations.ts';
import { HELD_COMMANDS, HELD_CONTENT } from './held-mutations.ts';
import type { Mutation } from './mutant.ts';
import { TELLING_COMMANDS, TELLING_CONTENT } from './telling-mutations.ts';

/** Other commands, or in another order: Temporal's replay fails. */
export const OTHER_COMMANDS: readonly Mutation[] = [
  ...CATALOG_COMMANDS,
  ...CROSSING_COMMANDS,
  ...DECISION_COMMANDS,
  ...HELD_COMMANDS,
  ...TELLING_COMMANDS,
  {
    name: 'an approved call leaves though its client is not there',
    noticedIn: 'agent-run.client-away-first',
    change: never('settleCall', 'state.consent !== undefined && live.awaitsClient'),
  },
  {
    name: 'the client of an approved call is never seen',
    noticedIn: 'agent-run.client-back',
    change: replaced('registerHandlers', 'live.notePresence($_)', 'undefined'),
  },
  {
    name: 'a ticket does not end when the outcome of its call was delivered',
    noticedIn: 'call-ticket.delivered',
    change: replaced('callTicket', '() => isDelivered', '() => false'),
  },
  {
    name: 'a task that had nothing to do leaves nothing',
    noticedIn: '1.0.0-rc.4/agent-run.told-closed',
    change: replaced('Tasks.end', 'isEmpty ? [...commands, REMOVED] : commands', 'commands'),
  },
  {
    name: 'a catalog forgets in a replay that it leaves something in each task',
    noticedIn: '1.0.0-rc.4/tool-catalog.connected',
    change: replaced('Tasks.begin', 'this.#replayMarker()', 'false'),
  },
  {
    name: 'the second part of a task leaves something, too',
    noticedIn: '1.0.0-rc.4/agent-run.away-first',
    change: removed('Tasks.begin', 'if (!isFirst) return;'),
  },
  {
    name: 'what could not be read is read once there is a key for it',
    noticedIn: 'agent-run.unread',
    change: replaced('seenAt', 'KEYED.find($_)', 'undefined'),
  },
  {
    name: 'one of two is enough',
    noticedIn: 'agent-run.one-of-two',
    change: replaced('missing', '$_.need ?? 1', '1'),
  },
  {
    name: 'a message that interrupts withdraws nothing',
    noticedIn: 'agent-run.interrupted',
    change: always('interrupted', '$_ === undefined'),
  },
  {
    name: 'a run spends more than it may',
    noticedIn: 'agent-run.spent',
    change: never('reachedLimit', '($_.spent ?? $_) >= $_'),
  },
  {
    name: 'a rejected call is asked again',
    noticedIn: 'agent-run.repeated',
    change: replaced('answeredBefore', '$_.find($_)?.outcome', 'undefined'),
  },
  {
    name: 'an activity before the model step',
    noticedIn: 'agent-run.one-of-two',
    change: replaced(
      'think',
      'await modelStep($asked)',
      "(await runActivities('').storeSegment({}), await modelStep($asked))",
    ),
  },
  {
    name: 'a call goes to another activity',
    noticedIn: 'agent-run.interrupted',
    change: replaced('sendCall', 'callActivities($$how)', '{ callTool: callActivities($$how).callToolFast }'),
  },
  {
    name: 'what waits is not shown in visibility',
    noticedIn: 'agent-run.lost-continued',
    change: removed('Surface.show', 'this.#showAttributes();'),
  },
  {
    name: 'a request has no deadline',
    noticedIn: 'agent-run.lost-continued',
    change: replaced('waitForAnswer', 'await condition($isOver, $$)', '(await condition($isOver), true)'),
  },
  {
    name: 'a reminder ends the request',
    noticedIn: 'agent-run.reminded',
    change: replaced('waitForAnswer', 'Date.now() < $deadline', 'Date.now() > $deadline'),
  },
  {
    name: 'a call is sent before anybody has decided',
    noticedIn: 'agent-run.one-of-two',
    change: replaced('judged', "$verdict.kind === 'allow'", "$verdict.kind === 'allow' || $verdict.kind === 'ask'"),
  },
  {
    name: 'a run sleeps before it starts',
    noticedIn: 'agent-run.lost-continued',
    change: replaced('agentRun', 'converse($live)', 'sleep(1_000).then(() => converse($live))'),
  },
];

/** The same commands that carry something else: only the comparison of what they carry notices. */
export const OTHER_CONTENT: readonly Mutation[] = [
  ...CATALOG_CONTENT,
  ...DECISION_CONTENT,
  ...HELD_CONTENT,
  ...TELLING_CONTENT,
  {
    name: 'a call that may have left is withdrawn',
    noticedIn: 'agent-run.withdrawn',
    change: replaced('sendCall', 'error instanceof CancelledFailure', 'isCancellation(error)'),
  },
  {
    name: 'a call that policy denies has a share of the room of its turn',
    noticedIn: 'agent-run.shared-sent',
    change: replaced('resultRoom', '$calls.filter($_).length', '$calls.length'),
  },
  {
    name: 'the ledger does not say where the conversation stood',
    noticedIn: 'agent-run.completed',
    change: replaced('LiveRun.apply', 'marked($fact, $_)', '$fact'),
  },
  {
    name: 'a dispatch is not told of the calls before it',
    noticedIn: 'agent-run.counted-sent',
    change: replaced('dispatchOf', 'earlierThan($before, $_, $callId)', 'earlierThan($before, [], $callId)'),
  },
  {
    name: 'a turn that is over is not counted',
    noticedIn: 'agent-run.counted-sent',
    change: replaced('LiveRun.closeTurn', 'closeTurn($run, $_)', 'closeTurn($run)'),
  },
  {
    name: 'other tool arguments are sent',
    noticedIn: 'agent-run.interrupted',
    change: replaced('dispatchOf', 'arguments: $given', 'arguments: { ...$given, force: true }'),
  },
  {
    name: 'a call may be sent twice',
    noticedIn: 'agent-run.interrupted',
    change: replaced('optionsOf', 'maximumAttempts: 1', 'maximumAttempts: 2'),
  },
  {
    name: 'a call may take longer',
    noticedIn: 'agent-run.interrupted',
    change: replaced('optionsOf', '$seconds + BESIDE_CALL_SECONDS', '$seconds + 3_600'),
  },
  {
    name: 'a request waits longer',
    noticedIn: 'agent-run.one-of-two',
    change: replaced('judged', '$seconds * 1_000', '$seconds * 2_000'),
  },
  {
    name: 'a postponed request keeps its deadline',
    noticedIn: 'agent-run.extended',
    change: replaced('extended', 'deadline: Date.parse($_)', 'deadline: request.deadline'),
  },
  {
    name: 'what was told is told again',
    noticedIn: 'agent-run.reminded',
    change: replaced('isUntold', '$at > $told', '$at >= $told'),
  },
  {
    name: 'a vote forgets when it was given',
    noticedIn: 'agent-run.escalated-sent',
    change: replaced('votedAt', 'further: $further.map($_)', 'further: $further.map(() => instantOf(openedAt))'),
  },
  {
    name: 'the model does not see what happened',
    noticedIn: 'agent-run.one-of-two',
    change: replaced(
      'conversationOf',
      '{ base: { ...$seen, ...$segment }, tail }',
      '{ base: { ...$seen, ...$segment }, tail: [] }',
    ),
  },
  {
    name: 'the next execution does not know the earlier ones',
    noticedIn: 'agent-run.continued-first',
    change: replaced('LiveRun.carry', 'carriedExecutions($_)', '[]'),
  },
  {
    name: 'the answer to a decision names somebody else',
    noticedIn: 'agent-run.one-of-two',
    change: replaced('answeredBy', 'decidedBy: $_', "decidedBy: 'system'"),
  },
];

/** Nothing that was recorded changes, only what is let through: only asking again notices. */
export const OTHER_REFUSALS: readonly Mutation[] = [
  ...CATALOG_REFUSALS,
  ...DECISION_REFUSALS,
  {
    name: 'a deadline may be postponed for ever',
    noticedIn: 'agent-run.extended',
    change: replaced('refuseExtension', 'latestDeadline($$asked)', 'latestDeadline($$asked) && Infinity'),
  },
  {
    name: 'a message id stands for any message',
    noticedIn: 'agent-run.interrupted',
    change: always('otherThanHeard', '$_ === hashOfSaid($_)'),
  },
  {
    name: 'who is asked later may decide at once',
    noticedIn: 'agent-run.reminded',
    change: replaced('peopleAt', '{ ids, groups }', "{ ids: escalate === undefined ? ids : [...ids, 'zoe'], groups }"),
  },
  {
    name: 'one person may agree twice',
    noticedIn: 'agent-run.one-of-two',
    change: never('refuseSurplus', '$_ !== undefined'),
  },
  {
    name: 'decisions made before a reset count',
    noticedIn: 'agent-run.extended',
    change: replaced('serve', 'madeInTime($$) ?? $refusal', '$refusal'),
  },
  {
    name: 'any digest will do',
    noticedIn: 'agent-run.lost-continued',
    change: never('refuseUntimely', 'digestOf($$) !== $_'),
  },
  {
    name: 'anybody may decide',
    noticedIn: 'agent-run.lost-continued',
    change: replaced('isNamedIn', '$ids.some($_) || $groups.some($_)', '$ids.length + $groups.length > 0'),
  },
  {
    name: 'nobody may decide',
    noticedIn: 'agent-run.one-of-two',
    change: replaced(
      'serve',
      'madeInTime($$asked) ?? $refusal',
      "madeInTime($$asked) ?? $refusal ?? { kind: 'refuse', code: 'REQUEST_NOT_OPEN', message: 'Closed for today.', facts: {} }",
    ),
  },
];

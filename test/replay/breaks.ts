/** Mistakes that a colleague may really make, and which layer stops each: the table of docs/operations/what-a-replay-sees.md. */
import { always, type Change, never, removed, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

/**
 * Layers in the order in which a build passes them: Temporal's own replay; the comparison of what commands carry; the
 * questions that `countersign replay` makes up for runs that wait; the refusals and answers that were recorded with the
 * corpus; the tests of the part itself; the start of a worker.
 */
export const LAYERS = ['replay', 'comparison', 'questions', 'refusals', 'tests', 'start'] as const;
export type Layer = (typeof LAYERS)[number];

export interface Break extends Omit<Mutation, 'noticedIn' | 'change'> {
  /** The history that the layers are asked with; another one may show the mistake to an earlier layer. */
  readonly noticedIn: Mutation['noticedIn'];
  readonly caughtBy: Layer;
  /** What Temporal's own replay says, numbers as N; absent if it says nothing. */
  readonly temporal?: string;
  /** Absent: a bundle that was not made by `bundleWorkflows`. */
  readonly change?: Change;
  /** The file of the change, if it is none of the workflow's. */
  readonly file?: string;
  /** The test that fails, for what no replay sees. */
  readonly test?: string;
}

export const BREAKS: readonly Break[] = [
  // Commands.
  {
    name: 'an activity is added before the model step',
    noticedIn: 'agent-run.one-of-two',
    caughtBy: 'replay',
    temporal:
      "Activity type of scheduled event 'modelStep' does not match activity type of activity command 'storeSegment'",
    change: replaced(
      'think',
      'await modelStep($asked)',
      "(await runActivities('').storeSegment({}), await modelStep($asked))",
    ),
  },
  {
    name: 'an activity is left out: people are not told of a request',
    noticedIn: 'agent-run.told',
    caughtBy: 'replay',
    temporal: 'Timer machine does not handle this event: HistoryEvent(id: N, ActivityTaskScheduled)',
    change: removed('Messenger.look', 'this.#queue = [...this.#queue, ...told];'),
  },
  {
    name: 'two commands change places: memo before search attributes',
    noticedIn: 'agent-run.one-of-two',
    caughtBy: 'replay',
    temporal: 'ModifyWorkflowPropertiesMachine does not handle HistoryEvent(id: N, UpsertWorkflowSearchAttributes)',
    change: replaced(
      'Surface.show',
      'this.#showAttributes();',
      'this.#showMemo(asking.length); this.#showAttributes();',
    ),
  },
  // What commands carry.
  {
    name: 'other arguments of an activity: a tool gets one field more',
    noticedIn: 'agent-run.interrupted',
    caughtBy: 'comparison',
    change: replaced('dispatchOf', 'arguments: $given', 'arguments: { ...$given, force: true }'),
  },
  {
    name: 'another timeout of an activity',
    noticedIn: 'agent-run.interrupted',
    caughtBy: 'comparison',
    change: replaced('optionsOf', '$seconds + BESIDE_CALL_SECONDS', '$seconds + 3_600'),
  },
  {
    name: 'another duration of a timer: a request waits twice as long',
    noticedIn: 'agent-run.one-of-two',
    caughtBy: 'comparison',
    change: replaced('judged', '$seconds * 1_000', '$seconds * 2_000'),
  },
  {
    name: 'another payload of an answer: it names somebody else',
    noticedIn: 'agent-run.one-of-two',
    caughtBy: 'comparison',
    change: replaced('answeredBy', 'decidedBy: $_', "decidedBy: 'system'"),
  },
  {
    name: 'another carry: the next execution does not know the earlier ones',
    noticedIn: 'agent-run.continued-first',
    caughtBy: 'comparison',
    change: replaced('LiveRun.carry', 'carriedExecutions($_)', '[]'),
  },
  // Validators, and what they compare.
  {
    name: 'approve: the digest is not compared',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: never('refuseUntimely', 'digestOf($$) !== $_'),
  },
  {
    name: 'approve: the nonce is no part of the digest',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: removed('requestDigest', 'nonce: $_'),
  },
  {
    name: 'approve: decisions count that were made before a reset',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: replaced('serve', 'madeInTime($$) ?? $refusal', '$refusal'),
  },
  {
    name: 'approve: anybody may decide',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: replaced('isNamedIn', '$ids.some($_) || $groups.some($_)', '$ids.length + $groups.length > 0'),
  },
  {
    name: 'approve: it counts after the deadline',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: never('refuseUntimely', 'now >= $_.request.deadline'),
  },
  {
    name: 'reject: it needs no reason',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: replaced('reason', 'z.string().min(1).max(4_096)', 'z.string().min(1).max(4_096).optional()'),
  },
  {
    name: 'respond: anybody who is asked may answer in the place of the tool',
    noticedIn: 'agent-run.pending',
    caughtBy: 'questions',
    change: replaced('permits', '$may?.includes($right)', "$right === 'respond' || $may?.includes($right)"),
  },
  {
    name: 'extend: a deadline may be postponed for ever',
    noticedIn: 'agent-run.extended',
    caughtBy: 'questions',
    change: replaced('refuseExtension', 'latestDeadline($$asked)', 'latestDeadline($$asked) && Infinity'),
  },
  {
    name: 'resolve: anybody may say what became of a call',
    noticedIn: 'agent-run.lost-continued',
    caughtBy: 'questions',
    change: always('admitAnswer', 'mayDecide($$)'),
  },
  {
    name: 'provideInput: any answer fits what a server asks',
    noticedIn: 'agent-run.server-asks-continued',
    caughtBy: 'questions',
    change: never('refuseProvision', '$_ !== undefined'),
  },
  {
    name: 'authorize: consent is taken for a grant',
    noticedIn: 'agent-run.unauthorized',
    caughtBy: 'questions',
    change: never('refuseAuthorization', '$_.kind !== $_.wants'),
  },
  {
    name: 'say: a message id stands for any message',
    noticedIn: 'agent-run.interrupted',
    caughtBy: 'refusals',
    change: always('otherThanHeard', '$_ === hashOfSaid($_)'),
  },
  {
    name: 'approve: those may decide at once who are asked later',
    noticedIn: 'agent-run.reminded',
    caughtBy: 'questions',
    change: replaced('peopleAt', '{ ids, groups }', "{ ids: escalate === undefined ? ids : [...ids, 'zoe'], groups }"),
  },
  // What no replay sees.
  {
    name: 'another value of a search attribute: nothing waits',
    noticedIn: 'agent-run.pending',
    caughtBy: 'tests',
    change: replaced('pendingAttributes', 'pending: $asking.length', 'pending: 0'),
    test: 'test/unit/domain/views/temporal-ui.test.ts',
  },
  {
    name: 'another answer to a query: limits are told without what was used',
    noticedIn: 'agent-run.pending',
    caughtBy: 'tests',
    change: replaced('limitsState', 'used: run.totalCalls', 'used: 0'),
    test: 'test/unit/domain/run/limits.test.ts',
  },
  {
    name: 'an activity that workers run: a call leaves again though it may have left',
    noticedIn: 'agent-run.pending',
    caughtBy: 'tests',
    file: 'activities/gate/dispatch-check.ts',
    change: always('checkFirst', '$_ === 1 && $_ === $_'),
    test: 'test/unit/activities/gate/dispatch.test.ts',
  },
  {
    name: 'a bundle without the guard of queries and our converter of payloads',
    noticedIn: 'agent-run.pending',
    caughtBy: 'start',
  },
];

/** What operators and colleagues read for each layer. */
const IN_WORDS: Readonly<Record<Layer, string>> = {
  replay: "Temporal's own replay",
  comparison: 'the comparison',
  questions: 'the questions',
  refusals: 'the recorded refusals',
  tests: 'tests',
  start: 'the worker, which does not start (`BUNDLE_INCOMPLETE`)',
};

/** The rows of the table in docs/operations/what-a-replay-sees.md. */
export function tableOfBreaks(): string {
  const rows = BREAKS.map(
    ({ name, caughtBy, temporal, test }) =>
      `| ${name} | ${IN_WORDS[caughtBy]}${test === undefined ? '' : ` (\`${test}\`)`} | ${temporal ?? 'nothing'} |`,
  );
  return ["| the break | what stops it | what Temporal's own replay says |", '|---|---|---|', ...rows].join('\n');
}

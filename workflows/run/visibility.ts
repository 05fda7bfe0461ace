/**
 * Shows a run to others: in Temporal UI and visibility, and by the answers to its queries.
 *
 * 1. At most one upsert of attributes and memo happens per workflow task, and none if nothing changed.
 * 2. Queries go by run id: an answer is about one execution. `query-guard.ts` refuses some before they get here.
 */
import type { SearchAttributeUpdatePair } from '@temporalio/common';
import {
  defineQuery,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { PENDING_MEMO, QUERIES, SEARCH_ATTRIBUTES, SPEC_HASH_MEMO } from '../../contracts/names.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunState, RunStatus } from '../../contracts/schemas/run-state.ts';
import type { MadeDecision, OpenRequest } from '../../contracts/wire/carry.ts';
import { shownTask, tasksOf } from '../../domain/legacy-2025/tasks.ts';
import { grantEnd, grantEnds, instantOf, shownOf } from '../../domain/request/deadline.ts';
import { isFixed } from '../../domain/request/decision.ts';
import { digestOf } from '../../domain/request/digest.ts';
import { shownStanding } from '../../domain/request/standing.ts';
import { shownThrottled, throttledCalls } from '../../domain/request/throttling.ts';
import { limitsState, spentOf } from '../../domain/run/limits.ts';
import {
  type Asking,
  askingCalls,
  type CallState,
  decisionOn,
  judgementOf,
  requestOf,
  requestStatusOf,
  waitOf,
} from '../../domain/state/run.ts';
import {
  currentDetails,
  listedWithin,
  pendingAttributes,
  pendingMemo,
  UNDER_WAY,
} from '../../domain/views/temporal-ui.ts';
import type { LiveRun } from './live-run.ts';

export class Surface {
  readonly #live: LiveRun;
  #shown: string;
  #memoShown: boolean;
  #isScheduled = false;

  constructor(live: LiveRun) {
    this.#live = live;
    const { typedSearchAttributes, continuedFromExecutionRunId } = workflowInfo();
    // The value that an earlier execution showed last is not known here, so it is shown once more.
    this.#memoShown = continuedFromExecutionRunId !== undefined;
    // A client that starts a run sets the attributes with it; a plain start leaves them to this class.
    this.#shown =
      this.#memoShown || typedSearchAttributes.get(SEARCH_ATTRIBUTES.tenant) === undefined
        ? ''
        : keyOf('preparing', []);
    live.showWith(() => this.#showSoon());
    // The first activity may take minutes, and people look meanwhile.
    if (!live.isPrepared) setCurrentDetails(currentDetails(live.status, live.run));
  }

  /** Shows all changes of one task at once. A promise is cheap, and a waiting `condition` is not. */
  #showSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    void Promise.resolve().then(() => this.show());
  }

  show(): void {
    this.#isScheduled = false;
    const live = this.#live;
    const { status, run } = live;
    if (!live.isPrepared) return this.#showEarlyEnd(status);
    setCurrentDetails(currentDetails(status, run, whyShown(live), live.stretched));
    const asking = askingCalls(run).map(shownAs);
    // The run goes on to wait for them in this very task.
    if (asking.length > 0 && BEFORE.has(status)) return;
    const shown = keyOf(status, asking);
    if (shown === this.#shown) return;
    this.#showAttributes();
    this.#showMemo(asking.length);
    this.#shown = shown;
  }

  /** Shows the end of a run whose spec is not known yet; such a run has nothing else to show. */
  #showEarlyEnd(status: RunStatus): void {
    setCurrentDetails(currentDetails(status, this.#live.run, this.#live.because));
    if (shownStatus(status) === RUNNING || this.#shown === status) return;
    upsertSearchAttributes([
      { key: SEARCH_ATTRIBUTES.status, value: status },
      { key: SEARCH_ATTRIBUTES.pending, value: 0 },
    ]);
    this.#shown = status;
  }

  #showAttributes(): void {
    const live = this.#live;
    const { pending, nextDeadline, waitingSince, approvers, tools } = pendingAttributes(live.run);
    const pairs: SearchAttributeUpdatePair[] = [
      { key: SEARCH_ATTRIBUTES.status, value: shownStatus(live.status) },
      { key: SEARCH_ATTRIBUTES.pending, value: pending },
    ];
    if (pending > 0 || this.#memoShown) {
      pairs.push(
        { key: SEARCH_ATTRIBUTES.nextDeadline, value: nextDeadline ?? null },
        { key: SEARCH_ATTRIBUTES.waitingSince, value: waitingSince ?? null },
        { key: SEARCH_ATTRIBUTES.approvers, value: approvers.length > 0 ? [...approvers] : null },
        { key: SEARCH_ATTRIBUTES.tools, value: tools.length > 0 ? [...tools] : null },
      );
    }
    if (this.#shown === '') {
      const { initiator, servers } = live.prepared;
      pairs.push(
        { key: SEARCH_ATTRIBUTES.initiator, value: initiator.id },
        { key: SEARCH_ATTRIBUTES.tenant, value: initiator.tenant },
        { key: SEARCH_ATTRIBUTES.root, value: workflowInfo().workflowId },
      );
      if (servers.length > 0)
        pairs.push({ key: SEARCH_ATTRIBUTES.servers, value: [...listedWithin(servers.map(({ name }) => name))] });
    }
    upsertSearchAttributes(pairs);
  }

  /** Writes the memo; a run without requests, started by a client that stored the hash, needs none. */
  #showMemo(waiting: number): void {
    const live = this.#live;
    const hasHash = workflowInfo().memo?.[SPEC_HASH_MEMO] !== undefined;
    if (waiting === 0 && !this.#memoShown && hasHash) return;
    this.#memoShown = waiting > 0;
    upsertMemo({
      [PENDING_MEMO]: waiting > 0 ? pendingMemo(live.run, live.ids) : null,
      ...(hasHash ? {} : { [SPEC_HASH_MEMO]: live.prepared.specHash }),
    });
  }
}

const RUNNING = 'running';

/** Key of one request: the parts of it that lists show. */
function shownAs({ call, request }: Asking): string {
  const { generation, extended, deadline, told } = request;
  return `${call.callId}/${generation}${extended === undefined ? '' : `/${deadline}`}${told === undefined ? '' : `!${told}`}`;
}

/** Key of everything that lists show; a new key means a new upsert. */
function keyOf(status: RunStatus, asking: readonly string[]): string {
  return `${shownStatus(status)} ${asking.join(' ')}`;
}

function whyShown(live: LiveRun): string | undefined {
  const { endsAs, listing, because } = live;
  if (endsAs !== undefined)
    return `ends ${endsAs}${because === undefined ? '' : `, ${because}`}, once transcript and ledger are stored`;
  return listing.size === 0 ? because : `lists the tools of ${[...listing].join(', ')}`;
}

/** Statuses in which a request may be open, and the run does not wait for it yet. */
const BEFORE: ReadonlySet<RunStatus> = new Set(['preparing', 'thinking']);

/** Status in lists. `thinking` and `acting` change every second; a run that is being stored is not over yet. */
function shownStatus(status: RunStatus): string {
  return UNDER_WAY.has(status) ? RUNNING : status;
}

export function serveQueries(live: LiveRun): void {
  setHandler(defineQuery(QUERIES.state), () => stateOf(live));
  setHandler(defineQuery(QUERIES.requests), () => live.run.calls.flatMap((state) => shownRequest(live, state)));
}

function stateOf(live: LiveRun): RunState {
  const { journal, run, ids } = live;
  const { nextDeadline } = waitOf(run);
  const asking = askingCalls(run);
  const held = throttledCalls(run);
  const tasks = tasksOf(run);
  const reminded = asking.filter(({ request }) => shownOf(request).remindedAt !== undefined).length;
  return {
    workflowId: ids.workflowId,
    runId: ids.runId,
    status: live.status,
    turn: run.turn,
    pending: asking.length,
    ...(reminded === 0 ? {} : { reminded }),
    ...(nextDeadline === undefined ? {} : { nextDeadline: instantOf(nextDeadline) }),
    ...defined({ endsAs: live.endsAs, because: live.because }),
    usage: run.usage,
    ...(live.isPrepared ? spentOf(run, live.prepared.price) : {}),
    calls: run.totalCalls,
    ...(live.isPrepared ? { limits: limitsState(run, live.prepared.limits) } : {}),
    ledgerLength: journal.ledgerLength,
    ledgerHead: journal.ledgerHead,
    transcriptLength: journal.transcriptLength,
    ledgerFrom: journal.ledgerFrom,
    transcriptFrom: journal.transcriptFrom,
    ...defined({ segment: journal.segment }),
    ...(live.isPrepared && live.isSigned ? { signing: { tenant: ids.tenant } } : {}),
    ...(run.standing === undefined || run.standing.length === 0 ? {} : { standing: run.standing.map(shownStanding) }),
    ...(live.listing.size === 0 ? {} : { listing: [...live.listing] }),
    ...(held.length === 0 ? {} : { held: held.map(shownThrottled) }),
    ...grantEnds(live),
    ...(live.flights.consideredCancelled ? { cancelsCalls: true } : {}),
    ...(tasks.length === 0 ? {} : { tasks: tasks.map(shownTask) }),
    ...defined({ messages: live.telling?.state() }),
  };
}

function shownRequest(live: LiveRun, state: CallState): ApprovalRequest[] {
  const request = requestOf(state);
  const judgement = judgementOf(state);
  const target = judgement?.target;
  if (state.status === 'proposed' || request === undefined || judgement === undefined || target === undefined)
    return [];
  const { ids } = live;
  const { call, edit, duplicateOf } = state;
  const { remindedAt, escalatedAt } = shownOf(request);
  const made = decisionOn(state);
  return [
    {
      ...ids,
      callId: call.callId,
      generation: request.generation,
      status: requestStatusOf(state),
      digest: digestOf({ request, call, judgement: { target } }, ids),
      ...defined({ about: request.about }),
      ...target,
      arguments: call.arguments,
      ...(edit === undefined ? {} : { edited: { by: edit.by, at: instantOf(edit.at), proposed: edit.proposed } }),
      ...defined({ redact: judgement.redact, description: judgement.description, annotations: judgement.annotations }),
      rules: judgement.verdict.rules,
      ...(judgement.verdict.kind === 'ask' && judgement.verdict.explain !== undefined
        ? { explain: judgement.verdict.explain }
        : {}),
      approvers: request.approvers,
      openedAt: instantOf(request.openedAt),
      deadline: instantOf(request.deadline),
      ...(remindedAt === undefined ? {} : { remindedAt: instantOf(remindedAt) }),
      ...(escalatedAt === undefined ? {} : { escalatedAt: instantOf(escalatedAt) }),
      ...grantEnd(live, target.server, request.deadline),
      ...defined({
        extensions: request.extended?.by.map(({ decision: { approver, until }, decidedAt }) => ({
          approver,
          at: instantOf(decidedAt),
          until,
        })),
        reopenedBecause: request.because,
        duplicateOf,
        votes: votesOn(state, request, made),
      }),
      ...decidedBy(state, request, made),
      ...(request.about !== undefined || made?.standing === undefined ? {} : { standing: made.standing }),
      ...(state.status === 'waiting-for-consent' && isFixed(state) ? { asItIs: true as const } : {}),
    },
  ];
}

function votesOn(
  state: CallState,
  { about }: OpenRequest,
  made: MadeDecision | undefined,
): ApprovalRequest['votes'] | undefined {
  if (about !== undefined) {
    const agreed = state.status === 'waiting-for-answer' ? state.agreed : undefined;
    return agreed?.map(({ answer: { approver }, decidedAt }) => ({ approver, at: instantOf(decidedAt) }));
  }
  const votes = state.status === 'waiting-for-consent' ? state.votes : made?.further;
  return votes?.map(({ decision: { approver }, decidedAt }) => ({ approver, at: instantOf(decidedAt) }));
}

function decidedBy(
  state: CallState,
  { about }: OpenRequest,
  made: MadeDecision | undefined,
): Pick<ApprovalRequest, 'decidedBy' | 'decidedAt'> {
  const pause = state.status === 'settled' ? state.pause : undefined;
  if (pause?.status === 'resolved') return { decidedBy: pause.by, decidedAt: instantOf(pause.at) };
  // The consent with which the call left is no answer to the question that is open now.
  if (about !== undefined || made === undefined) return {};
  return { decidedBy: made.decision.approver, decidedAt: instantOf(made.decidedAt) };
}

/**
 * Answers the queries of a run, which leave no trace in history. All go by run id, because an answer is about one
 * execution.
 *
 * `query-guard.ts` refuses some before they get here: those for which the worker loaded more than its workflow tasks.
 */
import { setHandler } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ApprovalRequest, Approver } from '../../contracts/schemas/request.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import type { Extension, MadeDecision, OpenRequest } from '../../contracts/wire/carry.ts';
import { shownTask, tasksOf } from '../../domain/legacy-2025/tasks.ts';
import { grantEnd, grantEnds, shownOf } from '../../domain/request/deadline.ts';
import { isFixed } from '../../domain/request/decision.ts';
import { digestOf } from '../../domain/request/digest.ts';
import { shownStanding } from '../../domain/request/standing.ts';
import { shownThrottled, throttledCalls } from '../../domain/request/throttling.ts';
import { limitsState, spentOf } from '../../domain/run/limits.ts';
import { type CallState, decisionOn, judgementOf, requestOf, requestStatusOf } from '../../domain/state/call.ts';
import { askingCalls, waitOf } from '../../domain/state/run.ts';
import type { LiveRun } from './live-run.ts';
import { requestsQuery, stateQuery } from './messages.ts';

export function serveQueries(live: LiveRun): void {
  setHandler(stateQuery, () => stateOf(live));
  setHandler(requestsQuery, () => live.run.calls.flatMap((state) => shownRequest(live, state)));
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
    ...(nextDeadline === undefined ? {} : { nextDeadline: instant(nextDeadline) }),
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
    ...(live.listing.size === 0 ? {} : { listing: [...live.listing.items] }),
    ...(held.length === 0 ? {} : { held: held.map(shownThrottled) }),
    ...grantEnds(live),
    ...(live.flights.consideredCancelled ? { cancelsCalls: true } : {}),
    ...(tasks.length === 0 ? {} : { tasks: tasks.map(shownTask) }),
    ...defined({ messages: live.telling?.state() }),
  };
}

/** Shows the request of a call of this turn, or nothing if nobody was ever asked. */
function shownRequest(live: LiveRun, state: CallState): ApprovalRequest[] {
  const request = requestOf(state);
  const judgement = judgementOf(state);
  const target = judgement?.target;
  if (state.status === 'proposed' || request === undefined || judgement === undefined || target === undefined)
    return [];
  const { ids } = live;
  const { call, edit, duplicateOf } = state;
  const made = decisionOn(state);
  const votes = votesOn(state, request, made);
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
      ...(edit === undefined ? {} : { edited: { by: edit.by, at: instant(edit.at), proposed: edit.proposed } }),
      ...defined({ redact: judgement.redact, description: judgement.description, annotations: judgement.annotations }),
      rules: judgement.verdict.rules,
      ...(judgement.verdict.kind === 'ask' && judgement.verdict.explain !== undefined
        ? { explain: judgement.verdict.explain }
        : {}),
      approvers: request.approvers,
      openedAt: instant(request.openedAt),
      deadline: instant(request.deadline),
      ...shownTimes(request),
      ...grantEnd(live, target.server, request.deadline),
      ...(request.extended === undefined ? {} : { extensions: request.extended.by.map(shownExtension) }),
      ...defined({ reopenedBecause: request.because, duplicateOf }),
      ...(votes === undefined
        ? {}
        : { votes: votes.map(({ approver, decidedAt }) => ({ approver, at: instant(decidedAt) })) }),
      ...decidedBy(state, request, made),
      ...(request.about !== undefined || made?.standing === undefined ? {} : { standing: made.standing }),
      ...(state.status === 'waiting-for-consent' && isFixed(state) ? { asItIs: true as const } : {}),
    },
  ];
}

/** Lists the approvals so far, if one is not enough. */
function votesOn(
  state: CallState,
  { about }: OpenRequest,
  made: MadeDecision | undefined,
): readonly { readonly approver: Approver; readonly decidedAt: number }[] | undefined {
  if (about !== undefined)
    return state.status === 'waiting-for-answer'
      ? state.agreed?.map(({ answer, decidedAt }) => ({ ...answer, decidedAt }))
      : undefined;
  const votes = state.status === 'waiting-for-consent' ? state.votes : made?.further;
  return votes?.map(({ decision, decidedAt }) => ({ ...decision, decidedAt }));
}

function decidedBy(
  state: CallState,
  { about }: OpenRequest,
  made: MadeDecision | undefined,
): Pick<ApprovalRequest, 'decidedBy' | 'decidedAt'> {
  const pause = state.status === 'settled' ? state.pause : undefined;
  if (pause?.status === 'resolved') return { decidedBy: pause.by, decidedAt: instant(pause.at) };
  // The consent with which the call left is no answer to the question that is open now.
  if (about !== undefined || made === undefined) return {};
  return { decidedBy: made.decision.approver, decidedAt: instant(made.decidedAt) };
}

function shownTimes(request: OpenRequest): Pick<ApprovalRequest, 'remindedAt' | 'escalatedAt'> {
  const { remindedAt, escalatedAt } = shownOf(request);
  return {
    ...(remindedAt === undefined ? {} : { remindedAt: instant(remindedAt) }),
    ...(escalatedAt === undefined ? {} : { escalatedAt: instant(escalatedAt) }),
  };
}

function shownExtension({ decision, decidedAt }: Extension): NonNullable<ApprovalRequest['extensions']>[number] {
  return { approver: decision.approver, at: instant(decidedAt), until: decision.until };
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}

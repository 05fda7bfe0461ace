/** A judged call changes its state here: it leaves, returns, is asked again, or ends. */
import { defined } from '../../contracts/defined.ts';
import type { Outcome, TokenEvidence } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ResolvedJudgement, Settled, Unsure } from '../../contracts/wire/carry.ts';
import type { DispatchResult, ShownDefinition } from '../../contracts/wire/tools.ts';
import type { Answerers } from '../policy/approvers.ts';
import {
  askable,
  countedAnew,
  callOf,
  type CallState,
  type Change,
  DISPATCHED,
  type Dispatched,
  isAsking,
  isSendable,
  MOST_ANSWERED,
  move,
  type Moved,
  notSent,
  replaceCall,
  type Run,
  type RunIds,
  type Sendable,
  sent,
  settled,
  type WaitingForConsent,
} from '../state/run.ts';
import { outcomeFact, requestOpenedFact } from './digest.ts';

/** Sends a call to its server; undefined if the call is not to be sent: neither cleared nor approved nor throttled. */
export function dispatched(run: Run, callId: string): Change | undefined {
  const state = callOf(run, callId);
  if (!isSendable(state)) return undefined;
  const next = sent(state);
  const decisionId = next.consent?.made.decision.decisionId;
  return {
    run: replaceCall(run, next),
    facts: [{ kind: 'dispatched', callId, attempt: next.attempts, ...defined({ decisionId }) }],
  };
}

export function ended(run: Run, callId: string, outcome: Outcome, token?: TokenEvidence): Change {
  const state = callOf(run, callId);
  if (state === undefined || state.status === 'settled') return { run, facts: [] };
  const { call, facts } = endedBy(state, outcome, token);
  const expired =
    outcome.kind === 'expired'
      ? [...run.expired, { callId, deadline: outcome.deadline }].slice(-MOST_ANSWERED)
      : run.expired;
  return { run: { ...replaceCall(run, call), expired }, facts };
}

export function endedBy(state: Exclude<CallState, Settled>, outcome: Outcome, token?: TokenEvidence): Moved {
  const { callId } = state.call;
  const call = settled(state, outcome);
  const status = outcome.kind === 'expired' ? 'expired' : 'cancelled';
  const closed: LedgerFact[] = isAsking(state)
    ? [{ kind: 'request.closed', callId, generation: state.request.generation, status }]
    : [];
  return { call, facts: [...closed, outcomeFact(callId, call.outcome, token ?? tokenOf(state))] };
}

/** Token evidence of the attempt that a request is about, or that the server still works on. */
function tokenOf(state: CallState): TokenEvidence | undefined {
  if (state.status === 'on-task') return state.task.token;
  const about = state.status === 'waiting-for-answer' ? state.request.about : undefined;
  return about?.kind === 'outcome' ? about.token : undefined;
}

/** Returns a call for another dispatch: proven not sent, or `unsure`, and the operator calls it repeatable. */
export function returned(run: Run, callId: string, unsure?: Unsure, isAnew?: boolean): Change {
  return move(run, callId, DISPATCHED, (state) => ({ call: notSent(state, unsure, isAnew), facts: [] }));
}

/** Asks for a call whose consent is missing or no longer holds. @param at epoch ms */
export function askedAgain(
  run: Run,
  callId: string,
  refusal: Extract<DispatchResult, { kind: 'reopen' }>,
  ids: RunIds,
  fallback: Answerers,
  at: number,
  isAnew = true,
): Change {
  return move(run, callId, [...DISPATCHED, 'approved', 'throttled'], (state) => {
    const call = reopened(state, {
      at,
      because: warned(state, `${refusal.code}: ${refusal.message}`, isAnew),
      approvers: refusal.approvers ?? state.consent?.request.approvers ?? fallback.approvers,
      deadlineSeconds: refusal.deadlineSeconds ?? fallback.deadlineSeconds,
      ...defined({ definition: refusal.definition }),
      isAnew,
    });
    return { call, facts: [requestOpenedFact(call, ids)] };
  });
}

/** A call without valid consent is asked (again); a new generation gives the request another digest (INV-G2). */
export function nextGeneration({ consent, asked = 0 }: Dispatched | Sendable): number {
  return Math.max(consent?.request.generation ?? 0, asked) + 1;
}

export interface Reopening {
  readonly at: number;
  readonly because: string;
  /** The rule of a stricter policy, or the former rule, or the caller's default. */
  readonly approvers: ApproverRule;
  readonly deadlineSeconds: number;
  readonly definition?: ShownDefinition;
  /** False in runs that an older build asked (patch `as-documented`): the attempts do not count anew from here on. */
  readonly isAnew?: boolean;
}

/** Adds a warning if the call may have run before. @param isAnew false: only if a person let it leave again */
export function warned({ unsure, asked }: Dispatched | Sendable, because: string, isAnew: boolean): string {
  return unsure === undefined || (asked === undefined && !isAnew)
    ? because
    : `OUTCOME_UNKNOWN: it was sent before and may have run. ${because}`;
}

export function reopened(
  state: Dispatched | Sendable,
  { at, because, approvers, deadlineSeconds, definition, isAnew = true }: Reopening,
): WaitingForConsent {
  const { again, ...asked } = askable(state);
  return {
    status: 'waiting-for-consent',
    ...asked,
    // Whoever approves it anew has read that it may have run.
    ...(isAnew ? countedAnew(state) : defined({ again })),
    ...(definition === undefined ? {} : { judgement: redefined(state.judgement, definition) }),
    request: {
      generation: nextGeneration(state),
      approvers,
      openedAt: at,
      deadline: at + deadlineSeconds * 1_000,
      because,
    },
  };
}

/** Replaces the definition that the fresh decision is about and that its digest covers (INV-G2). */
function redefined(
  { description: _, annotations: __, ...judgement }: ResolvedJudgement,
  { hash, description, annotations }: ShownDefinition,
): ResolvedJudgement {
  return {
    ...judgement,
    target: { ...judgement.target, definitionHash: hash },
    ...defined({ description, annotations }),
  };
}

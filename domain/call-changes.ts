/** What becomes of one call of a run after it was judged: it leaves, comes back, is asked again, or ends. */
import type { DispatchResult } from '../contracts/dispatch.ts';
import type { Outcome, TokenEvidence } from '../contracts/schemas/call.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import { type CallState, notSent, sent, type Unsure } from './call-state.ts';
import { initiatorRule } from './clause.ts';
import { outcomeFact, requestOpenedFact } from './facts.ts';
import { reopened, warned } from './reopening.ts';
import { callOf, type Change, MOST_ANSWERED, replaceCall, type Run, type RunIds } from './run.ts';
import { settled } from './settlement.ts';

/** The call leaves for its server. Undefined where it may not: only a cleared or approved call is sent. */
export function dispatched(run: Run, callId: string): Change | undefined {
  const state = callOf(run, callId);
  if (state?.status !== 'cleared' && state?.status !== 'approved') return undefined;
  const next = sent(state);
  const decisionId = next.made?.decision.decisionId;
  return {
    run: replaceCall(run, next),
    facts: [
      { kind: 'dispatched', callId, attempt: next.attempts, ...(decisionId === undefined ? {} : { decisionId }) },
    ],
  };
}

/** Puts an outcome on a call that has none yet; a settled call stays as it is. */
export function ended(run: Run, callId: string, outcome: Outcome, token?: TokenEvidence): Change {
  const state = callOf(run, callId);
  if (state === undefined || state.status === 'settled') return { run, facts: [] };
  const facts: LedgerFact[] = [];
  if (state.status === 'asking') {
    const status = outcome.kind === 'expired' ? 'expired' : 'cancelled';
    facts.push({ kind: 'request.closed', callId, generation: state.request.generation, status });
  }
  const next = settled(state, outcome);
  const evidence = token ?? tokenOf(state);
  facts.push(outcomeFact(callId, next.outcome, evidence));
  const expired =
    outcome.kind === 'expired'
      ? [...run.expired, { callId, deadline: outcome.deadline }].slice(-MOST_ANSWERED)
      : run.expired;
  return { run: { ...replaceCall(run, next), expired }, facts };
}

/** Of the attempt that a request is about, or that its server still works on. */
function tokenOf(state: CallState): TokenEvidence | undefined {
  if (state.status === 'in-flight') return state.task?.token;
  const about = state.status === 'asking' ? state.request.about : undefined;
  return about?.kind === 'outcome' ? about.token : undefined;
}

/** Proven not sent, or `unsure` and repeatable by the operator's word: the call may leave again. */
export function returned(run: Run, callId: string, unsure?: Unsure): Change {
  const state = callOf(run, callId);
  return { run: state?.status === 'in-flight' ? replaceCall(run, notSent(state, unsure)) : run, facts: [] };
}

/** The consent does not hold, or not any more: the call is asked (again). @param at epoch ms */
export function askedAgain(
  run: Run,
  callId: string,
  refusal: Extract<DispatchResult, { kind: 'reopen' }>,
  ids: RunIds,
  fallback: { readonly approverId: string; readonly deadlineSeconds: number },
  at: number,
): Change {
  const state = callOf(run, callId);
  if (state?.status !== 'in-flight' && state?.status !== 'approved') return { run, facts: [] };
  const next = reopened(state, {
    at,
    because: warned(state, `${refusal.code}: ${refusal.message}`),
    approvers: refusal.approvers ?? state.request?.approvers ?? initiatorRule(fallback.approverId),
    deadlineSeconds: refusal.deadlineSeconds ?? fallback.deadlineSeconds,
    ...(refusal.definition === undefined ? {} : { definition: refusal.definition }),
  });
  return { run: replaceCall(run, next), facts: [requestOpenedFact(next, ids)] };
}

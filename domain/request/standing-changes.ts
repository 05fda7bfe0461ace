/** Standing decisions begin, answer calls and end here; each of these changes is a fact of the ledger. */
import { defined } from '../../contracts/defined.ts';
import type { Forget, ForgetAck } from '../../contracts/schemas/request.ts';
import type { Judgement } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { isMet, mayDecide } from '../policy/approvers.ts';
import type { Change, Run, RunIds } from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { type CallState, isSendable } from '../state/call.ts';
import { requestOpenedFact } from './digest.ts';
import {
  agreedTo,
  answers,
  approvedBy,
  extentOf,
  holds,
  isOfTool,
  isSameTool,
  MOST_STANDING,
  withoutComment,
} from './standing.ts';
import { reopened, warned } from './transitions.ts';
import type { Standing } from '../../contracts/wire/carry.ts';

/** Number of newest withdrawn standing decisions remembered, so that a repeated withdrawal gets the first answer. */
export const MOST_FORGOTTEN = 100;

/**
 * Makes a standing decision of an approval if its approvers asked for one, and releases the waiting calls that it
 * covers.
 * @param at epoch ms
 * @param grant hash of the run's grant for the server
 */
export function remembered(run: Run, callId: string, at: number, grant?: string): Change {
  const state = run.calls.find(({ call: { callId: each } }) => each === callId);
  if (state?.status !== 'approved' || state.consent.made.standing !== undefined) return { run, facts: [] };
  const { consent, judgement, call } = state;
  const { made, request } = consent;
  const decisions = [made, ...(made.further ?? [])].map(({ decision }) => withoutComment(decision));
  const extent = extentOf(decisions);
  const current = stillStanding(run, [], at);
  const kept = current.run.standing ?? [];
  // Approvers who may decide only since an escalation do not count here.
  const isMeant = isMet(
    request.approvers,
    decisions.map(({ approver }) => approver),
  );
  if (extent === undefined || !isMeant || kept.length >= MOST_STANDING) return current;
  const standing: Standing = {
    id: made.decision.decisionId,
    callId,
    target: judgement.target,
    generation: request.generation,
    arguments: call.arguments,
    approvers: request.approvers,
    deadline: request.deadline,
    decidedAt: made.decidedAt,
    decisions,
    ...defined({ redact: judgement.redact, connection: judgement.connection, grant }),
  };
  const facts: LedgerFact[] = [
    ...current.facts,
    {
      kind: 'standing.made',
      standing: standing.id,
      callId,
      scope: extent.scope,
      ...(extent.names === undefined ? {} : { names: [...extent.names] }),
      ...(extent.until === undefined ? {} : { until: new Date(extent.until).toISOString() }),
      by: agreedTo(standing).map(({ id }) => id),
    },
  ];
  const calls = run.calls.map((waiting) => {
    if (waiting.status !== 'waiting-for-consent' || !answers(standing, waiting, at)) return waiting;
    facts.push({ kind: 'standing.used', standing: standing.id, callId: waiting.call.callId });
    return approvedBy(waiting, standing);
  });
  return { run: { ...run, calls, standing: [...kept, standing] }, facts };
}

/**
 * Answers a call that was just judged by a standing decision, if one covers it.
 * @param at epoch ms
 */
export function answeredByStanding(
  { standing = [] }: Run,
  state: CallState,
  at: number,
): { readonly next: CallState; readonly facts: readonly LedgerFact[] } {
  if (state.status !== 'waiting-for-consent') return { next: state, facts: [] };
  const found = standing.find((each) => answers(each, state, at));
  if (found === undefined) return { next: state, facts: [] };
  return {
    next: approvedBy(state, found),
    facts: [{ kind: 'standing.used', standing: found.id, callId: state.call.callId }],
  };
}

/**
 * Ends standing decisions whose time is over, or whose tool has changed according to these judgements.
 * @param at epoch ms
 */
export function stillStanding(run: Run, judgements: readonly Judgement[], at: number): Change {
  const { standing } = run;
  if (standing === undefined) return { run, facts: [] };
  const facts: LedgerFact[] = [];
  const kept = standing.filter((each) => {
    const because = !holds(each, at) ? 'it is over' : judgements.some(hasChanged(each)) ? 'the tool has changed' : '';
    if (because !== '') facts.push({ kind: 'standing.forgotten', standing: each.id, because });
    return because === '';
  });
  return facts.length === 0 ? { run, facts } : { run: { ...run, standing: kept }, facts };
}

function hasChanged(standing: Standing): (judgement: Judgement) => boolean {
  return ({ target, connection, verdict }) =>
    target !== undefined &&
    // The judge reports the connection of a server only for asked calls.
    verdict.kind === 'ask' &&
    isOfTool(standing.target, target) &&
    !isSameTool(standing, { target, connection });
}

/** Ends a standing decision that a dispatch did not accept as consent. */
export function lost(run: Run, id: string, code: string): Change {
  if (run.standing?.some((each) => each.id === id) !== true) return { run, facts: [] };
  return {
    run: { ...run, standing: run.standing.filter((each) => each.id !== id) },
    facts: [{ kind: 'standing.forgotten', standing: id, because: code }],
  };
}

/**
 * Returns the standing decision that answered a call, if it still holds.
 * @param now epoch ms
 */
export function standingOf({ standing = [] }: Run, id: string | undefined, now: number): Standing | undefined {
  return standing.find((each) => each.id === id && holds(each, now));
}

export type ForgetAdmission =
  | { readonly kind: 'accept'; readonly standing: Standing }
  | { readonly kind: 'repeat'; readonly ack: ForgetAck }
  | Refusal;

export function admitForget({ standing = [], forgotten = [] }: Run, { standing: id, by }: Forget): ForgetAdmission {
  const found = standing.find((each) => each.id === id);
  if (found === undefined) {
    const ack = forgotten.find((each) => each.standing === id);
    if (ack !== undefined) return { kind: 'repeat', ack };
    return refuse('STANDING_UNKNOWN', `No decision ${id} stands in this run; its state lists those that do.`, {
      standing: id,
    });
  }
  if (mayDecide(found.approvers, by)) return { kind: 'accept', standing: found };
  return refuse('APPROVER_NOT_ENTITLED', `${by.id} may not take back decision ${id}: whoever may decide so may.`, {
    standing: id,
  });
}

/**
 * Takes a standing decision back. Calls that it approved and that are not sent yet are asked after all.
 * @param at epoch ms
 */
export function forget(
  run: Run,
  { id }: Standing,
  { by, comment }: Forget,
  ids: RunIds,
  at: number,
): Change & { readonly ack: ForgetAck } {
  const ack = { standing: id, forgottenBy: by.id, forgottenAt: new Date(at).toISOString() };
  const facts: LedgerFact[] = [
    { kind: 'standing.forgotten', standing: id, by: by.id, ...defined({ because: comment }) },
  ];
  const calls = run.calls.map((state) => {
    if (!isSendable(state) || state.consent?.made.standing !== id) return state;
    const { approvers, deadline } = state.consent.request;
    const deadlineSeconds = Math.max(1, Math.ceil((deadline - at) / 1_000));
    const because = warned(state, `STANDING_LOST: ${FORGOTTEN}`);
    const next = reopened(state, { at, because, approvers, deadlineSeconds });
    facts.push(requestOpenedFact(next, ids));
    return next;
  });
  const standing = (run.standing ?? []).filter((each) => each.id !== id);
  const forgotten = [...(run.forgotten ?? []), ack].slice(-MOST_FORGOTTEN);
  return { ack, run: { ...run, calls, standing, forgotten }, facts };
}

export const FORGOTTEN = 'The decision that answered it no longer stands.';

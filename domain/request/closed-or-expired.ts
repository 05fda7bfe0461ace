/**
 * A request refuses an answer for three reasons: it is closed, it changed since it was read, or it expects another
 * update.
 */
import type { PauseKind } from '../../contracts/schemas/request.ts';
import { type Answerable, type Asking, type CallState, isDispatched } from '../state/call.ts';
import type { Run, RunIds } from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { digestOf } from './digest.ts';

/** The update that answers a request, by what the request is about. */
const ANSWERED_BY: Readonly<Record<PauseKind, string>> = {
  outcome: 'resolveOutcome (countersign resolve)',
  input: 'provideInput (countersign answer)',
  authorization: 'authorize (countersign authorize)',
};

/**
 * True if any answer of the run has the id. Temporal tells updates apart by this id, so all kinds of answers share it.
 */
export function isUsed({ answered, resumed = [] }: Run, decisionId: string): boolean {
  return [...answered, ...resumed].some(({ ack }) => ack.decisionId === decisionId);
}

export function refuseUsed({ callId, decisionId }: Answerable): Refusal {
  return refuse('DECISION_INVALID', `Decision id ${decisionId} was used for another decision; send a new id.`, {
    callId,
    path: 'decisionId',
  });
}

/**
 * Refuses an answer sent by the wrong update.
 * @param wanted what the request is about; undefined for consent
 */
export function refuseUpdate(wanted: PauseKind | undefined, callId: string): Refusal {
  const update = wanted === undefined ? 'decide (countersign approve, reject)' : ANSWERED_BY[wanted];
  return refuse(
    'DECISION_NOT_PERMITTED',
    `Call ${callId} waits for something else than this: answer it by ${update}. Nothing was changed.`,
    { callId },
  );
}

/**
 * Refuses an answer with another digest than the open request's, or one after the deadline.
 * @param now epoch ms
 */
export function refuseUntimely(
  state: Asking,
  { callId, digest, runId }: Answerable,
  ids: Omit<RunIds, 'runId'>,
  now: number,
): Refusal | undefined {
  if (digestOf(state, { ...ids, runId }) !== digest)
    return refuse(
      'DIGEST_MISMATCH',
      `The digest is not that of call ${callId} as it waits now; read the request again before deciding.`,
      { callId },
    );
  if (now >= state.request.deadline) return refuseExpired(callId, new Date(state.request.deadline).toISOString());
  return undefined;
}

/** Explains why a call that is not asking takes no decision, with the person who decided it, if any. */
export function refuseClosed(run: Run, state: CallState | undefined, callId: string): Refusal {
  // Expiry comes first: a call that was approved, asked again and then not answered has expired.
  const expired = run.expired.findLast((entry) => entry.callId === callId);
  if (expired !== undefined) return refuseExpired(callId, expired.deadline);
  const held = isDispatched(state) ? state.questions?.last : undefined;
  if (held?.kind === 'expired') return refuseExpired(callId, new Date(held.deadline).toISOString());
  if (held?.kind === 'cancelled')
    return refuse('REQUEST_NOT_OPEN', `Nobody waits any more for what the server of call ${callId} asked.`, { callId });
  const answered = run.answered.findLast(
    ({ ack }) => ack.callId === callId && ['approved', 'rejected', 'answered'].includes(ack.status),
  )?.ack;
  const resumed = run.resumed?.findLast(({ ack }) => ack.callId === callId)?.ack;
  if (resumed !== undefined && resumed.decidedAt >= (answered?.decidedAt ?? ''))
    return refuseDecided(resumed, `resolved (${resumed.answer})`);
  if (answered !== undefined) return refuseDecided(answered, answered.status);
  // Calls of closed turns are no longer in the state; a call of a turn that never was is unknown.
  if (state === undefined && !isOver(run, turnOf(callId)))
    return refuse('CALL_UNKNOWN', `This run has no call ${callId}.`, { callId });
  return refuse('REQUEST_NOT_OPEN', `Call ${callId} does not wait for a decision.`, { callId });
}

function refuseExpired(callId: string, deadline: string): Refusal {
  return refuse('DECISION_EXPIRED', `The request for call ${callId} expired at ${deadline}; nothing was changed.`, {
    callId,
  });
}

function isOver({ turn, calls }: Run, asked: number): boolean {
  return asked < turn || (asked === turn && turn > 0 && calls.length === 0);
}

function turnOf(callId: string): number {
  return Number(/^t([0-9]+)\./.exec(callId)?.[1] ?? Number.NaN);
}

function refuseDecided(
  { callId, decidedBy, decidedAt }: { readonly callId: string; readonly decidedBy: string; readonly decidedAt: string },
  what: string,
): Refusal {
  return refuse('ALREADY_DECIDED', `Call ${callId} was ${what} by ${decidedBy} at ${decidedAt}; nothing was changed.`, {
    callId,
    decidedBy,
    decidedAt,
  });
}

/**
 * Questions that a server asks on the open connection of a call, which waits for the answer (MCP 2025-11-25; docs/adr/0040).
 *
 * Pure. Owns how a call in flight comes to ask and goes on. Does not own what an answer says (`provision.ts`), who asks the server
 * (`activities/`), nor waiting (`workflows/legacy-2025/open-question.ts`).
 *
 * 1. The call stays sent: whatever becomes of the question, it is in flight again, by the same dispatch (INV-X1).
 * 2. Only the dispatch that is under way asks, one question after the other, in bounds of time, number and bytes. It may leave
 *    rounds out, and what it asks closes what it asked before.
 * 3. What nobody has answered in time is closed, and no answer that comes later is taken (INV-G2).
 */
import type { InputPause } from '../../contracts/schemas/answer.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { HeldQuestions } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { type CallState, type HeldProgress, type InFlight, resolvedOf } from '../state/call.ts';
import { requestOpenedFact } from '../request/facts.ts';
import { askedBytes, MOST_ASKED_BYTES, MOST_ROUNDS } from '../request/input.ts';
import type { Paused, Pausing } from '../request/pause.ts';
import { nextGeneration } from '../request/transitions.ts';
import { callOf, type Change, replaceCall, type Run, type RunIds } from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';

export type HeldOpen = Paused<InputPause> & { readonly heldOpen: Pick<HeldProgress, 'rounds' | 'waited'> };

/** Who is asked, for how long, and how long the server may be kept waiting in all. */
export type HeldPausing = Pick<Pausing, 'at' | 'approvers' | 'deadlineSeconds'> & { readonly holdSeconds: number };

export function isHeldOpen(state: CallState | undefined): state is HeldOpen {
  return state?.status === 'asking' && state.heldOpen !== undefined;
}

/** Whether people are asked; the state of the call, or why not. @param pausing undefined: the run holds no call of this server */
export function admitHeld(
  run: Run,
  asked: HeldQuestions,
  pausing: HeldPausing | undefined,
): { readonly kind: 'accept'; readonly state: HeldOpen } | Refusal {
  const { callId, attempt, round } = asked;
  const found = callOf(run, callId);
  if (found === undefined) return refuse('CALL_UNKNOWN', `This run has no call ${callId}.`, { callId });
  const state = pausing && flightOf(found, pausing.at);
  const isUnderWay = state !== undefined && state.task === undefined && state.attempts === attempt;
  if (pausing === undefined || !isUnderWay || round <= (state.heldInput?.rounds ?? 0))
    return refuse('REQUEST_NOT_OPEN', `Call ${callId} does not wait for what dispatch ${attempt} asks.`, { callId });
  if (run.queue.some(({ interrupt }) => interrupt === true))
    return refuse('REQUEST_NOT_OPEN', `The run was interrupted, and nobody is asked for call ${callId}.`, { callId });
  if (Object.keys(asked.requests).length === 0)
    return refuse('MESSAGE_INVALID', `Nothing is asked for call ${callId}.`, { callId, path: 'requests' });
  const next = opened(state, asked, pausing);
  const isOver = next.request.deadline <= pausing.at || round > MOST_ROUNDS;
  if (!isOver && askedBytes(replaceCall(run, next)) <= MOST_ASKED_BYTES) return { kind: 'accept', state: next };
  return refuse('LIMIT_REACHED', `The server of call ${callId} has asked too often, for too long, or for too much.`, {
    callId,
    limit: 'input',
  });
}

function opened(
  state: InFlight,
  { round, requests }: HeldQuestions,
  { at, approvers, deadlineSeconds, holdSeconds }: HeldPausing,
): HeldOpen {
  const { request, made, heldInput } = state;
  const waited = heldInput?.waited ?? 0;
  const most = Math.min(deadlineSeconds * 1_000, holdSeconds * 1_000 - waited);
  return {
    status: 'asking',
    ...resolvedOf(state),
    ...(request === undefined || made === undefined ? {} : { consented: { request, made } }),
    heldOpen: { rounds: round, waited },
    request: {
      generation: nextGeneration(state),
      approvers,
      openedAt: at,
      deadline: at + most,
      about: { kind: 'input', round, requests, held: true },
    },
  };
}

/**
 * A call that is in flight, also one that waits with a question: as it is without it. Its server has taken that back where it asks
 * another, or somebody has asked in the name of the dispatch. @param at epoch ms; up to when people were waited for
 */
export function flightOf(state: CallState, at: number): InFlight | undefined {
  if (isHeldOpen(state)) return flownOn(state, { kind: 'cancelled' }, Math.min(at, state.request.deadline));
  return state.status === 'in-flight' ? state : undefined;
}

/** People are asked this, and no more what was asked before. @param state as it was admitted */
export function askedHeld(run: Run, state: HeldOpen, ids: RunIds): Change {
  const before = callOf(run, state.call.callId);
  const closed = isHeldOpen(before) ? [closedFact(before, 'cancelled')] : [];
  return { run: replaceCall(run, state), facts: [...closed, requestOpenedFact(state, ids)] };
}

/** In flight again, by the dispatch that asked. @param until epoch ms; up to when people were waited for */
export function flownOn(
  { heldOpen, request, consented, ...state }: HeldOpen,
  last: HeldProgress['last'],
  until: number,
): InFlight {
  const { rounds, waited } = heldOpen;
  return {
    status: 'in-flight',
    ...resolvedOf(state),
    asked: request.generation,
    ...consented,
    heldInput: { rounds, waited: waited + Math.max(0, until - request.openedAt), last },
  };
}

/** Nobody has answered, and nobody will: its time is over, or nobody waits for it any more. No change where nothing is open. */
export function closedHeld(run: Run, callId: string, status: 'expired' | 'cancelled'): Change {
  const state = callOf(run, callId);
  if (!isHeldOpen(state)) return { run, facts: [] };
  const { deadline } = state.request;
  const last = status === 'expired' ? { kind: status, deadline } : { kind: status };
  // Of what is cancelled all its time counts: its dispatch is over, or asks nothing more in this turn.
  return {
    run: replaceCall(run, flownOn(state, last, deadline)),
    facts: [closedFact(state, status)],
  };
}

/** What its server was told, as the dispatch says that has ended; of what the run has put before people, and of nothing else. */
export function toldHeld(run: Run, { call: { callId }, attempts: attempt }: InFlight, result: DispatchResult): Change {
  const held = result.kind === 'ended' || result.kind === 'task' ? result.held : undefined;
  const state = callOf(run, callId);
  const rounds = state?.status === 'in-flight' ? (state.heldInput?.rounds ?? 0) : 0;
  const asked = (held ?? []).filter(({ round }) => round <= rounds).slice(0, MOST_ROUNDS);
  const facts = asked.map(({ round, told, code }): LedgerFact => ({
    kind: 'input.told',
    callId,
    attempt,
    round,
    told,
    ...(code === undefined ? {} : { code }),
  }));
  return { run, facts };
}

function closedFact(
  { call: { callId }, request: { generation } }: HeldOpen,
  status: 'expired' | 'cancelled',
): LedgerFact {
  return { kind: 'request.closed', callId, generation, status };
}

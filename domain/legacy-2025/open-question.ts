/**
 * A server of MCP 2025-11-25 may ask on the open connection of a call, which waits for the answer (docs/adr/0040).
 * `domain/request/provision.ts` says what an answer does; `workflows/legacy-2025/open-question.ts` waits.
 *
 * 1. The call stays sent: however the question ends, it is in flight again, by the same dispatch (INV-X1).
 * 2. Only the dispatch under way asks, in rounds, bounded in time, number and bytes. It may skip round numbers; a new
 *    round closes the one before.
 * 3. A question without an answer in time is closed, and takes no later answer (INV-G2).
 */
import { defined } from '../../contracts/defined.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { QuestionProgress } from '../../contracts/wire/carry.ts';
import type { HeldQuestions, HeldWord } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { requestOpenedFact } from '../request/digest.ts';
import { askedBytes, MOST_ASKED_BYTES, MOST_ROUNDS } from '../request/input.ts';
import { type Pausing, provisionProof } from '../request/pause.ts';
import { nextGeneration } from '../request/transitions.ts';
import { type Fields, isFields } from '../shapes/inputs.ts';
import {
  type AskingOnConnection,
  callOf,
  type CallState,
  type Change,
  type InFlight,
  isDispatched,
  move,
  replaceCall,
  resolvedOf,
  type Run,
  type RunIds,
} from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';

/** The people asked, the time for an answer, and how long the server may be kept waiting over all rounds. */
export type ElicitationPausing = Pick<Pausing, 'at' | 'approvers' | 'deadlineSeconds'> & {
  readonly holdSeconds: number;
};

/** Opens a request for the questions, or refuses them. @param pausing undefined if the run keeps no connection open */
export function admitElicitation(
  run: Run,
  asked: HeldQuestions,
  pausing: ElicitationPausing | undefined,
): { readonly kind: 'accept'; readonly state: AskingOnConnection } | Refusal {
  const { callId, attempt, round } = asked;
  const found = callOf(run, callId);
  if (found === undefined) return refuse('CALL_UNKNOWN', `This run has no call ${callId}.`, { callId });
  const state = pausing && flightOf(found, pausing.at);
  const isUnderWay = state !== undefined && state.attempts === attempt;
  if (pausing === undefined || !isUnderWay || round <= (state.questions?.rounds ?? 0))
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
  { at, approvers, deadlineSeconds, holdSeconds }: ElicitationPausing,
): AskingOnConnection {
  const { consent, grant } = state;
  const waited = state.questions?.waited ?? 0;
  const most = Math.min(deadlineSeconds * 1_000, holdSeconds * 1_000 - waited);
  return {
    status: 'asking-on-connection',
    ...resolvedOf(state),
    ...defined({ consent, grant }),
    questions: { rounds: round, waited },
    request: {
      generation: nextGeneration(state),
      approvers,
      openedAt: at,
      deadline: at + most,
      about: { kind: 'input', round, requests, held: true },
    },
  };
}

/** The call in flight, without its question. @param at epoch ms; the wait for people counts up to this time */
export function flightOf(state: CallState, at: number): InFlight | undefined {
  if (state.status === 'asking-on-connection')
    return backInFlight(state, { kind: 'cancelled' }, Math.min(at, state.request.deadline));
  return state.status === 'in-flight' ? state : undefined;
}

/** Asks these questions, and closes the former ones. @param state as `admitElicitation` returned it */
export function elicitationOpened(run: Run, state: AskingOnConnection, ids: RunIds): Change {
  return move(run, state.call.callId, ['in-flight', 'asking-on-connection'], (before) => {
    const closed = before.status === 'asking-on-connection' ? [closedFact(before, 'cancelled')] : [];
    return { call: state, facts: [...closed, requestOpenedFact(state, ids)] };
  });
}

/** Returns the call to flight. @param until epoch ms; the wait for people counts up to this time */
export function backInFlight(state: AskingOnConnection, last: QuestionProgress['last'], until: number): InFlight {
  const { request, consent, questions, grant } = state;
  const { rounds, waited } = questions;
  return {
    status: 'in-flight',
    ...resolvedOf(state),
    asked: request.generation,
    ...defined({ consent, grant }),
    questions: { rounds, waited: waited + Math.max(0, until - request.openedAt), last },
  };
}

export function elicitationClosed(run: Run, callId: string, status: 'expired' | 'cancelled'): Change {
  return move(run, callId, ['asking-on-connection'], (state) => {
    const { deadline } = state.request;
    const last = status === 'expired' ? { kind: status, deadline } : { kind: status };
    // A cancelled question counts with all its time: its dispatch is over, or asks nothing more in this turn.
    return { call: backInFlight(state, last, deadline), facts: [closedFact(state, status)] };
  });
}

/** Records what a dispatch that ended has told its server, limited to the rounds that the run put before people. */
export function elicitationTold(
  run: Run,
  { call: { callId }, attempts: attempt }: InFlight,
  result: DispatchResult,
): Change {
  const held = result.kind === 'ended' || result.kind === 'task' ? result.held : undefined;
  const state = callOf(run, callId);
  const rounds = state?.status === 'in-flight' ? (state.questions?.rounds ?? 0) : 0;
  const asked = (held ?? []).filter(({ round }) => round <= rounds).slice(0, MOST_ROUNDS);
  const facts = asked.map(({ round, told, code }): LedgerFact => ({
    kind: 'input.told',
    callId,
    attempt,
    round,
    told,
    ...defined({ code }),
  }));
  return { run, facts };
}

/** How a question of a dispatch stands; an unknown one counts as closed. @param place a `HeldPlace`, not trusted */
export function heldWord(run: Run, place: unknown): HeldWord {
  const { callId, attempt, round }: Fields = isFields(place) ? place : {};
  const state = typeof callId === 'string' ? callOf(run, callId) : undefined;
  if (state?.status === 'asking-on-connection' && state.attempts === attempt)
    return { kind: state.questions.rounds === round ? 'open' : 'closed' };
  const progress = isDispatched(state) && state.attempts === attempt ? state.questions : undefined;
  if (progress?.rounds !== round || progress?.last.kind !== 'answered') return { kind: 'closed' };
  return { kind: 'answered', provided: provisionProof(progress.last.provided) };
}

function closedFact(
  { call: { callId }, request: { generation } }: AskingOnConnection,
  status: 'expired' | 'cancelled',
): LedgerFact {
  return { kind: 'request.closed', callId, generation, status };
}

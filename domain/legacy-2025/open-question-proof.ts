/** Answers a dispatch that asks, by query, about the question that its server put on the open connection. */
import type { HeldWord } from '../../contracts/wire/legacy-2025.ts';
import { provisionProof } from '../request/provision.ts';
import { type Fields, isFields } from '../shapes/inputs.ts';
import { callOf, isDispatched, type Run } from '../state/run.ts';

/** State of a question; an unknown one counts as closed. @param place a `HeldPlace`, not trusted */
export function heldWord(run: Run, place: unknown): HeldWord {
  const { callId, attempt, round }: Fields = isFields(place) ? place : {};
  const state = typeof callId === 'string' ? callOf(run, callId) : undefined;
  if (state?.status === 'asking-on-connection' && state.attempts === attempt)
    return { kind: state.questions.rounds === round ? 'open' : 'closed' };
  const progress = isDispatched(state) && state.attempts === attempt ? state.questions : undefined;
  if (progress?.rounds !== round || progress?.last.kind !== 'answered') return { kind: 'closed' };
  return { kind: 'answered', provided: provisionProof(progress.last.provided) };
}

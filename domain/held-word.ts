/** What the dispatch of a call is told of the question that its server asked on the open connection. */
import type { HeldWord } from '../contracts/held-input.ts';
import { type Fields, isFields } from './field-checks.ts';
import { isHeldOpen } from './held-input.ts';
import { provisionProof } from './provision.ts';
import { callOf, type Run } from './run.ts';

/** @param place `HeldPlace`, as whoever may read the namespace sends it: what names no question of this run is closed */
export function heldWord(run: Run, place: unknown): HeldWord {
  const { callId, attempt, round }: Fields = isFields(place) ? place : {};
  const state = typeof callId === 'string' ? callOf(run, callId) : undefined;
  if (state === undefined || !('attempts' in state) || state.attempts !== attempt) return { kind: 'closed' };
  if (isHeldOpen(state)) return { kind: state.heldOpen.rounds === round ? 'open' : 'closed' };
  const progress = state.status === 'in-flight' ? state.heldInput : undefined;
  if (progress?.rounds !== round || progress?.last.kind !== 'answered') return { kind: 'closed' };
  return { kind: 'answered', provided: provisionProof(progress.last.provided) };
}

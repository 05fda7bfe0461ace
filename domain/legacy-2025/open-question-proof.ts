/** What the dispatch of a call is told of the question that its server asked on the open connection. */
import type { HeldWord } from '../../contracts/wire/legacy-2025.ts';
import { provisionProof } from '../request/provision.ts';
import { callOf, type Run } from '../state/run.ts';
import { type Fields, isFields } from '../shapes/fields.ts';
import { isHeldOpen } from './open-question.ts';

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

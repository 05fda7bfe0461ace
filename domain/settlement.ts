/**
 * How a call is closed.
 *
 * 1. A call that may have run is `unknown`, whatever becomes of it later, until it is known (INV-X2).
 */
import type { Outcome } from '../contracts/schemas/call.ts';
import type { CallState, MadeDecision, PauseEnding } from './call-state.ts';

export function settled(
  state: Exclude<CallState, { status: 'settled' }>,
  outcome: Outcome,
  made?: MadeDecision,
  ending?: PauseEnding,
): Extract<CallState, { status: 'settled' }> {
  const consented = state.status === 'asking' ? state.consented?.made : undefined;
  const decision = made ?? ('made' in state ? state.made : consented);
  const unsure = 'unsure' in state && !isKnown(outcome) ? state.unsure : undefined;
  const pause = ending ?? endingOf(state, outcome);
  return {
    status: 'settled',
    call: state.call,
    outcome: unsure ?? outcome,
    ...('judgement' in state ? { judgement: state.judgement } : {}),
    ...('request' in state && state.request !== undefined ? { request: state.request } : {}),
    ...(decision === undefined ? {} : { made: decision }),
    ...('duplicateOf' in state && state.duplicateOf !== undefined ? { duplicateOf: state.duplicateOf } : {}),
    ...('edit' in state && state.edit !== undefined ? { edit: state.edit } : {}),
    ...(pause === undefined ? {} : { pause }),
  };
}

/** Of a request about something else than consent that nobody has answered. */
function endingOf(state: Exclude<CallState, { status: 'settled' }>, outcome: Outcome): PauseEnding | undefined {
  if (state.status !== 'asking' || state.request.about === undefined) return undefined;
  return { status: outcome.kind === 'expired' ? 'expired' : 'cancelled' };
}

/** It ran, or a person has said what became of it. */
function isKnown(outcome: Outcome): boolean {
  return outcome.kind === 'succeeded' || (outcome.kind === 'failed' && outcome.executed);
}

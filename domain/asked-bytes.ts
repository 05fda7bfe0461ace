/**
 * What a run keeps of the questions that servers ask in the middle of calls, in bytes: it goes with the run from execution to
 * execution, and with each dispatch, of which Temporal takes 2 MiB (`limit.blobSize.error`).
 */
import type { CallState } from './call-state.ts';
import { byteLength, canonicalJson } from './canonical.ts';
import type { Run } from './run.ts';

/** Of all open calls: questions, states and answers, as canonical JSON. What is over it is not asked. */
export const MOST_ASKED_BYTES = 393_216;
/** Above it: whoever was asked may answer. */
export const ANSWER_ROOM_BYTES = 65_536;

export function askedBytes({ calls }: Run): number {
  return calls.reduce((sum, state) => sum + bytesOf(state), 0);
}

function bytesOf(state: CallState): number {
  if (state.status === 'settled' || state.status === 'proposed') return 0;
  const about = state.status === 'asking' ? state.request.about : undefined;
  const held = state.status === 'in-flight' ? state.heldInput : undefined;
  const kept = [
    ...(about?.kind === 'input' ? [about] : []),
    ...[state.input, held].filter((each) => each !== undefined),
  ];
  return kept.length === 0 ? 0 : byteLength(canonicalJson(kept));
}

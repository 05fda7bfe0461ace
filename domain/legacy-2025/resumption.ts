/**
 * If a call's worker is lost, the server may still have the answer, which is asked for again (docs/adr/0039).
 * `activities/gate/legacy-2025/resume-call.ts` asks.
 *
 * 1. Asking for an answer is no attempt: nothing is sent.
 * 2. The last heartbeat is checked like any outside input. Its content is sealed; only its form is visible here.
 */
import { defined } from '../../contracts/defined.ts';
import type { SealedState } from '../../contracts/schemas/input.ts';
import type { Unsure } from '../../contracts/wire/carry.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { sentAsTold } from '../request/outcome.ts';
import { isFields } from '../shapes/inputs.ts';
import { type Change, move, type Run } from '../state/run.ts';

/** An unknown outcome, with the sealed place at which another worker can ask for the answer. */
export type Resumable = Extract<DispatchResult, { kind: 'ended' }> & {
  readonly outcome: Unsure;
  readonly resume: SealedState;
};

/** Most workers that may be lost one after the other while asking for the same answer. */
const MOST_RESUMPTIONS = 3;
/** Characters of each of the four parts. The sealed place has all tokens that the server was shown. */
const LONGEST_PART = 262_144;

/** True if another worker may ask for the answer. @param earlier how often it was asked for */
export function isResumable(result: DispatchResult, earlier: number): result is Resumable {
  return (
    result.kind === 'ended' &&
    result.outcome.kind === 'unknown' &&
    result.resume !== undefined &&
    earlier < MOST_RESUMPTIONS
  );
}

/** The unknown outcome of a call whose worker is lost. @param details its last heartbeat, if any */
export function lostAnswer(message: string, details: unknown): Extract<DispatchResult, { kind: 'ended' }> {
  const sent = sentAsTold(details);
  const resume = sealedIn(details);
  return {
    kind: 'ended',
    outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message },
    ...defined({ sent, resume }),
  };
}

/** Merges the result of asking with what was known before; an unknown answer leaves the earlier knowledge in place. */
export function afterAsking(lost: Omit<Resumable, 'resume'>, answer: DispatchResult): DispatchResult {
  return answer.kind === 'ended' && answer.outcome.kind === 'unknown' ? { ...lost, ...answer } : answer;
}

export function resumed(run: Run, callId: string): Change {
  return move(run, callId, ['in-flight'], (call) => ({
    call,
    facts: [{ kind: 'resumed', callId, attempt: call.attempts }],
  }));
}

function sealedIn(details: unknown): SealedState | undefined {
  const resume = isFields(details) ? details['resume'] : undefined;
  if (!isFields(resume)) return undefined;
  const { protected: header, iv, ciphertext, tag } = resume;
  if (!isPart(header) || !isPart(iv) || !isPart(ciphertext) || !isPart(tag)) return undefined;
  return { protected: header, iv, ciphertext, tag };
}

function isPart(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_PART;
}

/**
 * Calls whose worker is lost and whose server may still have the answer (docs/adr/0039).
 *
 * Pure. Owns what of a lost worker's last word is believed, and how often an answer is asked for. Does not own where it comes
 * (`activities/gate/legacy-2025/resume-call.ts`).
 *
 * 1. Asking for an answer is no attempt: nothing is sent.
 * 2. A last word is looked at like anything that comes from outside. What it holds is sealed; only its form is seen here.
 */
import type { SealedState } from '../../contracts/schemas/input.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import type { Unsure } from '../state/call.ts';
import { sentAsTold } from '../request/outcome.ts';
import { callOf, type Change, type Run } from '../state/run.ts';
import { isFields } from '../shapes/fields.ts';

/** An unknown outcome, and where another worker can ask for the answer. */
export type Resumable = Extract<DispatchResult, { kind: 'ended' }> & {
  readonly outcome: Unsure;
  readonly resume: SealedState;
};

/** Workers that are lost one after the other while they ask for one answer. */
const MOST_RESUMPTIONS = 3;
/** Of each of the four: with the place stand all tokens that the server was shown, each of some kilobytes. */
const LONGEST_PART = 262_144;

/** @param earlier how often the answer to this attempt was asked for */
export function isResumable(result: DispatchResult, earlier: number): result is Resumable {
  return (
    result.kind === 'ended' &&
    result.outcome.kind === 'unknown' &&
    result.resume !== undefined &&
    earlier < MOST_RESUMPTIONS
  );
}

/** Nobody knows what became of it. @param details the last heartbeat of a worker that is lost, where there was one */
export function lostAnswer(message: string, details: unknown): Extract<DispatchResult, { kind: 'ended' }> {
  const sent = sentAsTold(details);
  const resume = sealedIn(details);
  return {
    kind: 'ended',
    outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message },
    ...(sent === undefined ? {} : { sent }),
    ...(resume === undefined ? {} : { resume }),
  };
}

/** What it is known to have come to; where that is nothing, what was known before is known still. */
export function afterAsking(lost: Omit<Resumable, 'resume'>, answer: DispatchResult): DispatchResult {
  return answer.kind === 'ended' && answer.outcome.kind === 'unknown' ? { ...lost, ...answer } : answer;
}

/** Its server is asked for the answer. */
export function resumed(run: Run, callId: string): Change {
  const state = callOf(run, callId);
  if (state?.status !== 'in-flight') return { run, facts: [] };
  return { run, facts: [{ kind: 'resumed', callId, attempt: state.attempts }] };
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

/**
 * What is known of a call whose outcome is not, for whoever says what became of it.
 *
 * 1. What a worker said, as it ended the call or before it was lost, is looked at like anything that comes from outside: whoever may
 *    write to the namespace can say it too. What does not fit is left out.
 */
import type { DispatchResult } from '../contracts/dispatch.ts';
import type { OutcomePause } from '../contracts/schemas/pause.ts';
import type { InFlight } from './call-state.ts';
import { type Fields, isFields, isFiniteNumber } from './field-checks.ts';
import { isInstant } from './messages.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** Of a server's word, what is shown of it whole. */
const LONGEST_MESSAGE = 1_000;

/**
 * @param handedAt when the run handed it to a worker, epoch ms
 * @param sentTimes absent in runs that call that the time at which it left
 */
export function outcomePause(
  { attempts }: InFlight,
  { outcome, sent, token }: Ended,
  handedAt: number,
  sentTimes?: 'told',
): OutcomePause {
  const said: unknown = 'message' in outcome ? outcome.message : undefined;
  const message = typeof said === 'string' ? said : 'Its outcome is not known.';
  const at = sent?.at;
  return {
    kind: 'outcome',
    ...leftAt(at, new Date(handedAt).toISOString(), sentTimes),
    message: message.slice(0, LONGEST_MESSAGE),
    attempt: attempts,
    ...(isCount(sent?.bytes) ? { bytes: sent.bytes } : {}),
    ...(isFiniteNumber(sent?.progress) ? { lastProgress: sent.progress } : {}),
    ...(isEvidence(token) ? { token } : {}),
  };
}

function leftAt(
  at: string | undefined,
  handedAt: string,
  sentTimes: 'told' | undefined,
): Pick<OutcomePause, 'sentAt' | 'handedAt'> {
  if (isInstant(at)) return { sentAt: at };
  return sentTimes === 'told' ? { handedAt } : { sentAt: handedAt };
}

function isCount(bytes: unknown): bytes is number {
  return Number.isSafeInteger(bytes) && Number(bytes) >= 0;
}

/** Texts, and lists of texts: as it is shown. */
function isEvidence(token: unknown): boolean {
  const isText = (value: unknown): boolean => typeof value === 'string';
  return (
    isFields(token) &&
    Object.values(token).every((value) => (Array.isArray(value) ? value.every(isText) : isText(value)))
  );
}

/** The last heartbeat of a worker that is lost; undefined where it does not say that the call was sent. */
export function sentAsTold(details: unknown): Ended['sent'] {
  const { sentAt, progress }: Fields = isFields(details) ? details : {};
  if (!isInstant(sentAt)) return undefined;
  return {
    at: sentAt,
    ...(isFiniteNumber(progress) ? { progress } : {}),
  };
}

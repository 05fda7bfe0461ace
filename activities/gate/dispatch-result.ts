/**
 * Turns the ending of a dispatch into the result that its run reads.
 *
 * 1. Every ending is a value, including a fault of this worker before the send: the run would take a thrown error for a
 *    lost answer.
 * 2. `not-sent` is a result that the run may try again: proven not to have run, and likely to pass (INV-X1).
 */
import { activityInfo, cancellationDetails, cancellationSignal, Context, log } from '@temporalio/activity';
import { defined } from '../../contracts/defined.ts';
import { traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { type HeldTold, MOST_TRIES } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { resultText } from '../../domain/views/model-text.ts';
import { faultName } from '../kit/activity.ts';
import type { CallEnding, CallProgress } from '../mcp/port.ts';
import type { MintedToken } from '../tokens/port.ts';

const CANCELLED_BEFORE_SENDING = {
  kind: 'ended',
  outcome: { kind: 'cancelled', reason: 'The call was cancelled before it was sent.' },
} as const satisfies DispatchResult;

/** The last progress that Temporal was told of a call. It is all that is known if the call ends without an answer. */
export interface Told {
  last?: CallProgress;
  /** When the call left, if it did. */
  sentAt?: string | undefined;
}

/**
 * Returns a check for a worker that shuts down while the call is wanted and has reported where its answer comes. It
 * must be created inside the activity; Temporal's cancellation may run it outside.
 */
export function handingOn(told: Told): () => boolean {
  const context = Context.current();
  return () => context.cancellationDetails?.workerShutdown === true && told.last?.resume !== undefined;
}

/** Builds the result from the ending of a call. */
export function resultOf(
  ending: Exclude<CallEnding, { kind: 'input' | 'task' }>,
  minted: Pick<MintedToken, 'evidence'> | undefined,
  told: Told,
): DispatchResult {
  const token = minted === undefined ? {} : { token: minted.evidence };
  const { last } = told;
  switch (ending.kind) {
    case 'executed':
      return ending.isError
        ? {
            kind: 'ended',
            ...token,
            outcome: {
              kind: 'failed',
              code: 'TOOL_FAILED',
              message: resultText(ending.result).slice(0, 500),
              executed: true,
              result: ending.result,
            },
          }
        : { kind: 'ended', ...token, outcome: { kind: 'succeeded', result: ending.result } };
    case 'unknown':
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'unknown', code: ending.code, message: ending.message },
        ...sentOf(last, ending),
        ...(handingOn(told)() && last?.resume !== undefined ? { resume: last.resume } : {}),
      };
    case 'not-sent':
      if (isWithdrawn()) return { ...CANCELLED_BEFORE_SENDING, ...token };
      return notSent(ending);
    case 'refused':
      // 429, and 503 with Retry-After, are sent before execution (RFC 6585 §4, RFC 9110 §15.6.4): the same as not sent.
      if (ending.code === 'TOOL_RATE_LIMITED' || ending.retryAfterMs !== undefined) return notSent(ending);
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'failed', code: ending.code, message: ending.message, executed: false },
      };
  }
}

/** Adds what the server was told in mid-call; every call that was sent reports it. */
export function withTold(result: DispatchResult, held: readonly HeldTold[]): DispatchResult {
  return result.kind === 'ended' && held.length > 0 ? { ...result, held } : result;
}

function sentOf(
  last: CallProgress | undefined,
  { bytes }: Extract<CallEnding, { kind: 'unknown' }>,
): Pick<Extract<DispatchResult, { kind: 'ended' }>, 'sent'> {
  if (last?.sentAt === undefined) return {};
  const { sentAt, progress } = last;
  return {
    sent: {
      at: sentAt,
      ...defined({ bytes, progress }),
    },
  };
}

function notSent({
  code,
  message,
  retryAfterMs,
}: Extract<CallEnding, { kind: 'not-sent' | 'refused' }>): DispatchResult {
  return { kind: 'not-sent', code, message, ...defined({ retryAfterMs }) };
}

/**
 * True if the call is no longer wanted. A worker that shuts down also cancels its activities, but another worker
 * replaces them.
 */
function isWithdrawn(): boolean {
  return cancellationSignal().aborted && cancellationDetails()?.workerShutdown !== true;
}

/**
 * Returns the result of a failure before sending. The run tries again what may pass, because nothing has left this
 * worker.
 */
export function endedBeforeSending(error: unknown): DispatchResult {
  if (isWithdrawn()) return CANCELLED_BEFORE_SENDING;
  if (cancellationSignal().aborted)
    return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'The worker shut down before the call was sent.' };
  const coded = codedFailureIn(error);
  if (coded === undefined) return failedUnsent(error);
  const { code, message, facts } = coded;
  const { retryAfterMs } = facts;
  if (traitsOf(code).retryable) {
    return { kind: 'not-sent', code, message, ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}) };
  }
  return { kind: 'ended', outcome: { kind: 'failed', code, message, executed: false } };
}

/** Another worker, or this one in a moment, may succeed, so an approval is not lost to this fault. */
function failedUnsent(error: unknown): DispatchResult {
  const name = faultName(error);
  log.error('A call was not sent: a fault of this worker.', { error: name });
  const message = `This worker failed before the call was sent (${name}). Its log names the fault.`;
  return { kind: 'not-sent', code: 'INTERNAL', message };
}

// A poll of a task must know whether its current try is the last one.

/** Time in ms that must be left for this try, the pause after it and one more try. */
const NEEDED_MS = 120_000;

/** Must be called where the try begins. */
export function isLastTry(): boolean {
  // Temporal servers do not report the number of attempts (1.29).
  const { attempt, retryPolicy, scheduledTimestampMs, scheduleToCloseTimeoutMs } = activityInfo();
  const end = scheduledTimestampMs + scheduleToCloseTimeoutMs;
  return attempt >= (retryPolicy?.maximumAttempts ?? MOST_TRIES) || Date.now() + NEEDED_MS > end;
}

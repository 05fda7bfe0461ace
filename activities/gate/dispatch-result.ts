/**
 * What a dispatch says to its run of how a call ended.
 *
 * 1. Every ending is a value, also a fault of ours before anything was sent: thrown, the run would take it for a lost answer.
 * 2. `not-sent` is what the run may try again: proven not to have run, and likely to pass (INV-X1).
 */
import { activityInfo, cancellationDetails, cancellationSignal, Context, log } from '@temporalio/activity';
import { traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { type HeldTold, MOST_TRIES } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { resultText } from '../../domain/views/model-text.ts';
import { faultName } from '../kit/coded.ts';
import type { CallEnding, CallProgress } from '../mcp/port.ts';
import type { MintedToken } from '../tokens/port.ts';

const CANCELLED_BEFORE_SENDING = {
  kind: 'ended',
  outcome: { kind: 'cancelled', reason: 'The call was cancelled before it was sent.' },
} as const satisfies DispatchResult;

/** What Temporal was told last of a call: what is known where it ends without an answer. */
export interface Told {
  last?: CallProgress;
  /** When it left, where it did. */
  sentAt?: string | undefined;
}

/**
 * Does this worker go while the call is wanted, and is it said where its answer comes? Made inside the activity; may be asked where
 * Temporal cancels it, which is outside.
 */
export function handingOn(told: Told): () => boolean {
  const context = Context.current();
  return () => context.cancellationDetails?.workerShutdown === true && told.last?.resume !== undefined;
}

/** What a call ended as. */
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
      // 429, and 503 with Retry-After, are said before execution (RFC 6585 §4, RFC 9110 §15.6.4): the same as not sent.
      if (ending.code === 'TOOL_RATE_LIMITED' || ending.retryAfterMs !== undefined) return notSent(ending);
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'failed', code: ending.code, message: ending.message, executed: false },
      };
  }
}

/** What its server was told in the middle of the call is told of every call that was sent. */
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
      ...(bytes === undefined ? {} : { bytes }),
      ...(progress === undefined ? {} : { progress }),
    },
  };
}

function notSent({
  code,
  message,
  retryAfterMs,
}: Extract<CallEnding, { kind: 'not-sent' | 'refused' }>): DispatchResult {
  return { kind: 'not-sent', code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

/** Does nobody want the call any more? A worker that shuts down cancels its activities too, and another one takes their place. */
function isWithdrawn(): boolean {
  return cancellationSignal().aborted && cancellationDetails()?.workerShutdown !== true;
}

/** What may pass is tried again by the run; nothing has left this worker. */
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

/** Another worker, or this one in a moment, may do better: an approval is not lost for it. */
function failedUnsent(error: unknown): DispatchResult {
  const name = faultName(error);
  log.error('A call was not sent: a fault of this worker.', { error: name });
  const message = `This worker failed before the call was sent (${name}). Its log names the fault.`;
  return { kind: 'not-sent', code: 'INTERNAL', message };
}

// Whether the question about a task that is asked now is tried again where it fails.

/** What is left for it must hold this try, the pause after it and another one. */
const NEEDED_MS = 120_000;

/** Asked where the try begins. */
export function isLastTry(): boolean {
  // Servers of Temporal do not say how often (1.29).
  const { attempt, retryPolicy, scheduledTimestampMs, scheduleToCloseTimeoutMs } = activityInfo();
  const end = scheduledTimestampMs + scheduleToCloseTimeoutMs;
  return attempt >= (retryPolicy?.maximumAttempts ?? MOST_TRIES) || Date.now() + NEEDED_MS > end;
}

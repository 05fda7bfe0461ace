/**
 * Turns an error that leaves an activity into a coded failure, once: the border between our errors and Temporal's.
 *
 * 1. An error without a code leaves only its name: its message may quote requests, answers and keys (INV-S1). The
 *    activity is tried again, as after a passing fault, and the worker's log has the place.
 */
import { activityInfo, ApplicationFailure, CancelledFailure, CompleteAsyncError, log } from '@temporalio/activity';
import { isErrorCode, traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../../contracts/failure.ts';
import { isUndecodable, type Undecodable } from '../../contracts/payload-converter.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { isFields } from '../../domain/shapes/inputs.ts';

type Activity<Input, More extends readonly unknown[], Output> = (input: Input, ...more: More) => Promise<Output>;

/**
 * Wraps an activity so that every error leaves it as a coded failure, but a cancellation, or the word to the SDK that
 * Temporal was told of the end.
 */
export function coded<Input, More extends readonly unknown[], Output>(
  activity: Activity<Input, More, Output>,
): Activity<Input, More, Output> {
  return async (input, ...more) => {
    if (isUndecodable(input)) throw unread(input);
    try {
      return await activity(input, ...more);
    } catch (error) {
      if (error instanceof CancelledFailure || error instanceof CompleteAsyncError) throw error;
      const failure = codedFailure(error);
      // A stretch passes on what an activity inside of it has told.
      if (!TOLD.has(failure)) tellFailure(error, input);
      TOLD.add(failure);
      throw failure;
    }
  };
}

/** Failures that the log has. */
const TOLD = new WeakSet<ApplicationFailure>();

export function codedFailure(error: unknown): ApplicationFailure {
  // The failure is complete, including whether the activity is tried again.
  if (error instanceof ApplicationFailure && isErrorCode(error.type)) return error;
  const found = codedFailureIn(error);
  if (found === undefined) return faultOf(error);
  const { code, message, facts } = found;
  const { retryAfterMs } = facts;
  return failureOf(code, message, facts, typeof retryAfterMs === 'number' ? retryAfterMs : undefined);
}

function faultOf(error: unknown): ApplicationFailure {
  const message = `A fault without a code (${faultName(error)}); the log of the worker has the place.`;
  return failureOf('INTERNAL', message, {}, undefined, true);
}

/** Logs one line for each failed try: its subject, the reason, and since when it is tried. */
function tellFailure(error: unknown, input: unknown): void {
  const { activityType: step, attempt, scheduledTimestampMs } = activityInfo();
  const found = codedFailureIn(error);
  const isFinal = error instanceof ApplicationFailure && error.nonRetryable === true;
  const again = !isFinal && (found === undefined || traitsOf(found.code).retryable);
  log.warn(again ? 'A step failed; it is tried again.' : 'A step failed.', {
    step,
    ...subjectOf(input),
    code: found?.code ?? 'INTERNAL',
    reason: found?.message ?? faultName(error),
    attempt,
    since: new Date(scheduledTimestampMs).toISOString(),
    // The log writes only its name and place.
    ...(found === undefined ? { error } : {}),
  });
}

function subjectOf(input: unknown): { readonly server?: string; readonly model?: string } {
  if (!isFields(input)) return {};
  const { server, model } = input;
  if (isFields(server) && typeof server['name'] === 'string') return { server: server['name'] };
  return typeof model === 'string' ? { model } : {};
}

/** Fails so that the activity is tried again, which is harmless: another worker may have the key. */
function unread({ says }: Undecodable): ApplicationFailure {
  const message = `What the activity was given ${says}. All workers need the same encryption.keys. Nothing was done.`;
  return failureOf('CONFIG_INVALID', message, { path: 'encryption.keys' }, undefined, true);
}

const LONGEST = 64;

/** An error without a code is told by the name of its class alone: its message may quote secrets (INV-S1). */
export function faultName(error: unknown): string {
  const name = typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : typeof error;
  return name.slice(0, LONGEST);
}

export type Refused = Extract<DispatchResult, { kind: 'reopen' | 'refused' }>;

export function refused(code: string, message: string): Refused {
  return { kind: 'refused', code, message };
}

export function forbidden(message: string): Refused {
  return refused('DISPATCH_FORBIDDEN', message);
}

export function unknownOutcome(message: string): Extract<DispatchResult, { kind: 'ended' }> {
  return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
}

/**
 * Returns who scheduled the current activity, by Temporal's word, which no input can forge. Times are epoch ms; ids are
 * empty if no workflow did.
 */
export function currentScheduler() {
  const info = activityInfo();
  const { workflowExecution, workflowType, workflowNamespace, namespace, attempt } = info;
  return {
    namespace: workflowNamespace ?? namespace,
    activity: info.activityType,
    workflowType,
    workflowId: workflowExecution?.workflowId ?? '',
    runId: workflowExecution?.runId ?? '',
    attempt,
    scheduledAt: info.scheduledTimestampMs,
    attemptAt: info.currentAttemptScheduledTimestampMs,
  };
}

export type Scheduler = Readonly<ReturnType<typeof currentScheduler>>;

/**
 * The border between our errors and Temporal's: an error leaves an activity as a coded failure, once.
 *
 * 1. An error without a code leaves its name and nothing that it says: its message may quote requests, answers and keys (INV-S1).
 *    It is tried again, as a fault of the moment; the worker's log has the place.
 */
import { ApplicationFailure, CancelledFailure, Context, log } from '@temporalio/activity';
import { isErrorCode, traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../../contracts/failure.ts';
import { isUndecodable, type Undecodable } from '../../contracts/payload-converter.ts';
import { isFields } from '../../domain/shapes/fields.ts';

type Activity<Input, Output> = (input: Input) => Promise<Output>;

export function coded<Input, Output>(activity: Activity<Input, Output>): Activity<Input, Output> {
  return async (input) => {
    if (isUndecodable(input)) throw unread(input);
    try {
      return await activity(input);
    } catch (error) {
      if (error instanceof CancelledFailure) throw error;
      tellFailure(error, input);
      // It says all that it should, also whether it is tried again.
      if (error instanceof ApplicationFailure && isErrorCode(error.type)) throw error;
      const found = codedFailureIn(error);
      if (found === undefined) throw faultOf(error);
      const { retryAfterMs } = found.facts;
      throw failureOf(
        found.code,
        found.message,
        found.facts,
        typeof retryAfterMs === 'number' ? retryAfterMs : undefined,
      );
    }
  };
}

function faultOf(error: unknown): ApplicationFailure {
  const message = `A fault without a code (${faultName(error)}); the log of the worker has the place.`;
  return failureOf('INTERNAL', message, {}, undefined, true);
}

/** One line for each try that failed: what it was about, why, and since when it is tried. */
function tellFailure(error: unknown, input: unknown): void {
  const context = contextIfAny();
  if (context === undefined) return;
  const { activityType: step, attempt, scheduledTimestampMs } = context.info;
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
    // The log writes its name and place alone.
    ...(found === undefined ? { error } : {}),
  });
}

/** The server or the model that it is about. */
function subjectOf(input: unknown): { readonly server?: string; readonly model?: string } {
  if (!isFields(input)) return {};
  const { server, model } = input;
  if (isFields(server) && typeof server['name'] === 'string') return { server: server['name'] };
  return typeof model === 'string' ? { model } : {};
}

/** None where an activity is called by hand. */
function contextIfAny(): Context | undefined {
  try {
    return Context.current();
  } catch {
    return undefined;
  }
}

/** Tried again where that is harmless: another worker may have the key. */
function unread({ says }: Undecodable): ApplicationFailure {
  const message = `What the activity was given ${says}. All workers need the same encryption.keys. Nothing was done.`;
  return failureOf('CONFIG_INVALID', message, { path: 'encryption.keys' }, undefined, true);
}

// What is told of a fault that has no code: the name of its class. What it says may quote requests, answers and keys (INV-S1).

const LONGEST = 64;

export function faultName(error: unknown): string {
  const name = typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : typeof error;
  return name.slice(0, LONGEST);
}

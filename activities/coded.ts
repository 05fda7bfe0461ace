/** The border between our errors and Temporal's: a `CountersignError` leaves an activity as a coded failure, once. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { isErrorCode } from '../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../contracts/failure.ts';
import { isUndecodable, type Undecodable } from '../contracts/undecodable.ts';

type Activity<Input, Output> = (input: Input) => Promise<Output>;

export function coded<Input, Output>(activity: Activity<Input, Output>): Activity<Input, Output> {
  return async (input) => {
    if (isUndecodable(input)) throw unread(input);
    try {
      return await activity(input);
    } catch (error) {
      if (error instanceof CancelledFailure) throw error;
      // It says all that it should, also whether it is tried again.
      if (error instanceof ApplicationFailure && isErrorCode(error.type)) throw error;
      const found = codedFailureIn(error);
      if (found === undefined) throw error;
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

/** Tried again where that is harmless: another worker may have the key. */
function unread({ says }: Undecodable): ApplicationFailure {
  const message = `What the activity was given ${says}. All workers need the same encryption.keys. Nothing was done.`;
  return failureOf('CONFIG_INVALID', message, { path: 'encryption.keys' }, undefined, true);
}

/** The border between our errors and Temporal's: a `CountersignError` leaves an activity as a coded failure, once. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { isErrorCode } from '../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../contracts/failure.ts';

type Activity<Input, Output> = (input: Input) => Promise<Output>;

export function coded<Input, Output>(activity: Activity<Input, Output>): Activity<Input, Output> {
  return async (input) => {
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

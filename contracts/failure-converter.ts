/**
 * Failures as Temporal stores them. Reading never throws: what cannot be read is a failure without a code, at the place in the chain of
 * causes where it stood (docs/adr/0046). Loaded by path, as the payload converter is.
 */
import {
  ApplicationFailure,
  DefaultFailureConverter,
  type FailureConverter,
  type PayloadConverter,
  type ProtoFailure,
  type SerializationContext,
} from '@temporalio/common';

export class TotalFailureConverter extends DefaultFailureConverter {
  override failureToError(
    failure: ProtoFailure,
    payloadConverter: PayloadConverter,
    context?: SerializationContext,
  ): Error {
    try {
      return super.failureToError(failure, payloadConverter, context);
    } catch {
      return ApplicationFailure.nonRetryable('A failure that cannot be read.');
    }
  }
}

export const failureConverter: FailureConverter = new TotalFailureConverter();

/**
 * Error codes cross Temporal only through these functions and this converter.
 *
 * Only `type`, `message`, `nonRetryable` and `details` of an `ApplicationFailure` survive the wire (Temporal TypeScript
 * SDK, failure converter).
 */
import {
  ApplicationFailure,
  DefaultFailureConverter,
  type FailureConverter,
  type PayloadConverter,
  type ProtoFailure,
  type SerializationContext,
} from '@temporalio/common';
import { CountersignError, type ErrorCode, type ErrorFacts, isErrorCode, traitsOf } from './errors.ts';
import { isUndecodable } from './payload-converter.ts';

export interface CodedFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly facts: ErrorFacts;
}

/**
 * Makes a failure with a code.
 * @param retryAfterMs delay before Temporal's next attempt, if there is one
 * @param retryable overrides the table if the caller knows better
 */
export function failureOf(
  code: ErrorCode,
  message: string,
  facts: ErrorFacts = {},
  retryAfterMs?: number,
  retryable = traitsOf(code).retryable,
): ApplicationFailure {
  return ApplicationFailure.create({
    type: code,
    message,
    nonRetryable: !retryable,
    details: [facts],
    ...(retryAfterMs === undefined ? {} : { nextRetryDelay: retryAfterMs }),
  });
}

/** Returns the code of an error or of its causes, up to ten deep; undefined if there is none. */
export function codedFailureIn(error: unknown): CodedFailure | undefined {
  for (let at: unknown = error, depth = 0; at !== null && typeof at === 'object' && depth < 10; depth += 1) {
    if (at instanceof CountersignError) return { code: at.code, message: at.message, facts: at.facts };
    // Sound: an object may be read at any name; the value is unknown.
    const { type, message, details, cause } = at as {
      type?: unknown;
      message?: unknown;
      details?: unknown;
      cause?: unknown;
    };
    if (isErrorCode(type)) {
      const first: unknown = Array.isArray(details) ? details[0] : undefined;
      // Sound: facts are read for display only, and every field of ErrorFacts is optional.
      const facts = (first !== null && typeof first === 'object' && !isUndecodable(first) ? first : {}) as ErrorFacts;
      return { code: type, message: typeof message === 'string' ? message : type, facts };
    }
    at = cause;
  }
  return undefined;
}

// Reads failures as Temporal stores them, and never throws. An unreadable failure becomes one without a code, at its
// place in the chain of causes (docs/adr/0046). Temporal loads the converter by path, like the payload converter.

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

/**
 * Makes a failure final whatever its code says: a run is never repeated as a whole, since its calls have been made
 * (INV-X1).
 */
export function final({ message, type, details }: ApplicationFailure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type, ...(details ?? []));
}

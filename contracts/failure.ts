/**
 * The only two functions that carry a code across Temporal: only `type`, `message`, `nonRetryable` and `details` of an
 * `ApplicationFailure` survive the wire (Temporal TypeScript SDK, failure converter).
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
 * @param retryAfterMs delay before Temporal's next attempt; only for what is tried again.
 * @param retryable where a place knows better than the table
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

/** The code that an error carries, however deep in its chain of causes; undefined where it carries none. */
export function codedFailureIn(error: unknown): CodedFailure | undefined {
  for (let at: unknown = error, depth = 0; at !== null && typeof at === 'object' && depth < 10; depth += 1) {
    if (at instanceof CountersignError) return { code: at.code, message: at.message, facts: at.facts };
    // Sound: an object may be read at any name; what comes out is unknown.
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

// Failures as Temporal stores them. Reading never throws: what cannot be read is a failure without a code, at the place in the chain of
// causes where it stood (docs/adr/0046). Loaded by path, as the payload converter is.

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

/** Whether a code may pass is said of what failed: a run as a whole is never repeated, since its calls have been made (INV-X1). */
export function final({ message, type, details }: ApplicationFailure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type, ...(details ?? []));
}

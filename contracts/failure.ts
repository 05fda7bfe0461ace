/**
 * Error codes cross Temporal only here. Of an `ApplicationFailure` only `type`, `message`, `nonRetryable` and `details`
 * survive.
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
 * @param retryAfterMs delay before Temporal's next attempt, if there is one. 0 leaves it to the backoff: for a delay of
 *   nothing Temporal waits for the longest interval of the retry policy
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
    ...(retryAfterMs === undefined || retryAfterMs <= 0 ? {} : { nextRetryDelay: retryAfterMs }),
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

/** Makes a failure final: a run is never repeated as a whole, since its calls have been made (INV-X1). */
export function final({ message, type, details }: ApplicationFailure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type, ...(details ?? []));
}

// A query that meets a run between two workflow tasks is refused by its worker (docs/adr/0044), and asked again.

/** Every refusal begins with this mark; clients look for it, people read the rest. */
const MARK = 'ASK_AGAIN';

/** The text that Temporal hands to the asker, Temporal UI too. */
export const REFUSED_QUERY = `${MARK}: the run was between two workflow tasks. Nothing is wrong: ask again, or reload the page.`;

// A query says when it was asked: a task that started later may be another worker's (docs/adr/0091).

/** Queries of this project have at most two arguments, and ignore a third. */
const OWN_ARGUMENTS = 2;

/** Adds the time of asking to the arguments of a query. @param now epoch ms */
export function askedAt(args: readonly unknown[], now: number): unknown[] {
  const own = Array.from({ length: OWN_ARGUMENTS }, (_, index) => args[index] ?? null);
  return [...own, { askedAt: now }];
}

/** Returns when a query was asked, in epoch ms by the asker's clock; undefined if it does not say so. */
export function whenAsked(args: readonly unknown[]): number | undefined {
  const said = args[OWN_ARGUMENTS];
  if (typeof said !== 'object' || said === null || !('askedAt' in said)) return undefined;
  return Number.isSafeInteger(said.askedAt) ? (said.askedAt as number) : undefined;
}

/** Six attempts within about three seconds; a run that is rebuilt answers the second time. */
const MOST_OFTEN = 6;
const FIRST_PAUSE_MS = 50;

/** True if the error, or one of its causes up to ten deep, is such a refusal. */
export function isRefusedQuery(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1)
    if (at.message.includes(`${MARK}: `)) return true;
  return false;
}

/** Repeats a query until it is answered. @param leftMs remaining time @throws the last error */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  pause: (ms: number) => Promise<unknown>,
  leftMs = () => Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let asked = 1; ; asked += 1) {
    // The pause doubles, with a random factor that spreads askers who were refused together.
    const pauseMs = FIRST_PAUSE_MS * 2 ** (asked - 1) * (0.5 + Math.random());
    try {
      return await ask();
    } catch (error) {
      if (!isRefusedQuery(error) || asked === MOST_OFTEN || pauseMs >= leftMs()) throw error;
    }
    await pause(pauseMs);
  }
}

// The SDK answers one of the queries that wait for a run which its worker lets go (docs/adr/0063).

/** A worker that holds the run answers in a fraction of this time. */
const LOST_AFTER_MS = 2_000;
const MOST_AT_ONCE = 3;

/**
 * Asks again while no answer comes, and takes the first that does. Only for what changes nothing.
 * @param pause must not keep a process alive: nobody ends it
 * @throws the error of the first attempt, or the refusal of a later one
 */
export async function askedAgain<T>(ask: () => Promise<T>, pause: (ms: number) => Promise<unknown>): Promise<T> {
  let isOver = false;
  const first = ask();
  const again = async (times: number): Promise<T> => {
    await pause(LOST_AFTER_MS);
    if (isOver) return await first;
    const answer = ask().catch(async (error: unknown) => {
      if (isRefusedQuery(error)) throw error;
      return await first;
    });
    return await (times === MOST_AT_ONCE ? answer : Promise.race([answer, again(times + 1)]));
  };
  try {
    return await Promise.race([first, again(2)]);
  } finally {
    isOver = true;
  }
}

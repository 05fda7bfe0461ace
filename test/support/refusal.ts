/** Reads the coded error of an operation that must be refused. */
import type { CountersignError, ErrorCode } from '../../contracts/errors.ts';

/** Returns the coded error with which a promise rejects. */
export async function refusalOf(promise: Promise<unknown>): Promise<CountersignError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  // Sound: the name is set by that class alone, and survives where `instanceof` does not.
  if (error !== undefined && (error as { name?: unknown }).name === 'CountersignError')
    return error as CountersignError;
  throw new Error(`expected a coded refusal, got ${String(error)}`);
}

export async function codeOf(promise: Promise<unknown>): Promise<ErrorCode> {
  return (await refusalOf(promise)).code;
}

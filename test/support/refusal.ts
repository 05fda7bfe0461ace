/** Reads the coded error of an operation that must be refused, and says what it must be. */
import { expect } from '@jest/globals';
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

/** What an error with this code matches that says this, among other words. */
export function withCode(code: string | number, part: string): Readonly<Record<string, unknown>> {
  return { code, message: expect.stringContaining(part) };
}

/** What an error with this code matches that names this place of what was given. */
export function atPath(code: string, path: string): Readonly<Record<string, unknown>> {
  return { code, facts: { path } };
}

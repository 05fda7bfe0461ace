/** Refuses inputs that have not the right shape, or cannot be decoded, as failures with a code. */
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Parsed } from '../../domain/shapes/messages.ts';
import type { Refusal } from '../../domain/text/refusal.ts';

/** @throws ApplicationFailure with the code of the refusal, if there is one */
export function refuseWith(refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw failureOf(refusal.code, refusal.message, refusal.facts);
}

/** Returns the argument of a query, if it could be decoded. */
export function askedAbout(about: unknown): unknown {
  if (isUndecodable(about)) throw failureOf('MESSAGE_INVALID', `What is asked about ${about.says}.`);
  return about;
}

/** @throws ApplicationFailure with this code, if the message has not the right shape */
export function parsed<T>(shape: Parsed<T>, code: ErrorCode): T {
  if (shape.kind === 'ok') return shape.value;
  throw failureOf(code, `${shape.path === '' ? 'The message' : shape.path} ${shape.reason}; nothing was changed.`, {
    path: shape.path,
  });
}

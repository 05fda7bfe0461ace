/** Checks how an execution began: it was started once, or continued as new. */
import { workflowInfo } from '@temporalio/workflow';
import { failureOf, final } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import { assertReadable, seenAt } from './unread.ts';

export interface Beginning {
  readonly code: 'SPEC_INVALID' | 'CATALOG_INVALID' | 'MESSAGE_INVALID';
  /** Names the input that cannot be read: `The run spec`. */
  readonly input: string;
  /** Says that a second argument belongs to continue-as-new. */
  readonly alone: string;
  readonly versions: readonly number[];
  /** Returns the path of an option or argument that is refused, and why. */
  readonly refuse: () => { readonly path: string; readonly message: string } | undefined;
}

/** Refuses any other start: only continue-as-new hands on what an earlier execution has done. */
export function assertBegun(
  input: unknown,
  carry: { readonly version: number } | null | undefined,
  { code, input: named, alone, versions, refuse }: Beginning,
): void {
  const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
  const refused = (path: string, message: string): Error => final(failureOf(code, message, { path }));
  // Only an execution of this service continues as new: an unreadable carry waits for a worker that has the key.
  if (isContinued) assertReadable(input, carry);
  const seen = seenAt('start', input);
  if (isUndecodable(seen)) throw refused('args[0]', `${named} ${seen.says}. Nothing was done.`);
  const refusal = refuse();
  if (refusal !== undefined) throw refused(refusal.path, refusal.message);
  if (carry === undefined || carry === null) return;
  if (!isContinued) throw refused('args[1]', `${alone}; the second belongs to continue-as-new.`);
  // This is not a failure of the run or catalog: after a rollback the task waits for a build that knows this version.
  if (!versions.includes(carry.version))
    throw new Error(`carried state has version ${carry.version}; this build knows another`);
}

/**
 * Makes an activity fail if it does not know what became of its call, so that Temporal UI does not show it as done.
 *
 * 1. What the worker knows goes along as the failure's detail; the run reads it there as it reads a result.
 * 2. Temporal does not encrypt a failure's message, so the message says nothing of the call but its id.
 */
import { ApplicationFailure } from '@temporalio/activity';
import type { ErrorCode } from '../../contracts/errors.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';

const LOST: ErrorCode = 'OUTCOME_UNKNOWN';

export function failingWhereLost<Input extends { readonly callId: string }>(
  call: (input: Input) => Promise<DispatchResult>,
): (input: Input) => Promise<DispatchResult> {
  return async (input) => {
    const result = await call(input);
    if (result.kind !== 'ended' || result.outcome.kind !== 'unknown') return result;
    const message = `What became of call ${input.callId} is not known; it may have run.`;
    throw ApplicationFailure.nonRetryable(message, LOST, result);
  };
}

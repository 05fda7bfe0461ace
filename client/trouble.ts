/** What Temporal's client throws, as errors of the one table; each says what to do next. */
import {
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { CountersignError } from '../contracts/errors.ts';
import { codedFailureIn } from '../contracts/failure.ts';

/** gRPC status codes (grpc/grpc statuscodes.md). */
const INVALID_ARGUMENT = 3;
const DEADLINE_EXCEEDED = 4;
const NOT_FOUND = 5;
const FAILED_PRECONDITION = 9;
const UNAVAILABLE = 14;

export function troubleOf(error: unknown, runId: string): CountersignError {
  if (error instanceof CountersignError) return error;
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) return uncertain(runId, error);
  if (error instanceof WorkflowFailedError) return failedRun(error, runId);
  const coded = codedFailureIn(error);
  if (coded !== undefined)
    return new CountersignError(coded.code, coded.message, { runId, ...coded.facts }, { cause: error });
  if (error instanceof WorkflowNotFoundError)
    return new CountersignError(
      'RUN_NOT_FOUND',
      `There is no open run ${runId} in this namespace.`,
      { runId },
      { cause: error },
    );
  if (error instanceof WorkflowExecutionAlreadyStartedError) {
    return new CountersignError(
      'RUN_ID_CONFLICT',
      `Run ${runId} exists with another spec; choose another id.`,
      { runId },
      { cause: error },
    );
  }
  return engineTrouble(error, runId);
}

function engineTrouble(error: unknown, runId: string): CountersignError {
  const cause = error instanceof ServiceError ? error.cause : error;
  if (isGrpcServiceError(cause)) {
    switch (cause.code) {
      case INVALID_ARGUMENT:
        return new CountersignError(
          'USAGE',
          `Temporal does not take that: ${cause.details}`,
          { runId },
          { cause: error },
        );
      case NOT_FOUND:
        return new CountersignError(
          'RUN_NOT_FOUND',
          `There is no run ${runId} in this namespace.`,
          { runId },
          { cause: error },
        );
      case DEADLINE_EXCEEDED:
        return uncertain(runId, error);
      case FAILED_PRECONDITION:
        return new CountersignError(
          'RUN_STUCK',
          `Run ${runId} cannot take a workflow task: ${cause.details}. See the run in Temporal UI.`,
          { runId },
          { cause: error },
        );
      case UNAVAILABLE:
        return new CountersignError(
          'ENGINE_UNAVAILABLE',
          'Temporal does not answer; check its address and try again.',
          { runId },
          { cause: error },
        );
      default:
        return new CountersignError('INTERNAL', `Temporal refused: ${cause.details}`, { runId }, { cause: error });
    }
  }
  const message = error instanceof Error ? error.message : String(error);
  return new CountersignError('INTERNAL', message, { runId }, { cause: error });
}

function uncertain(runId: string, cause: unknown): CountersignError {
  // A call about no run in particular only reads.
  if (runId === '')
    return new CountersignError(
      'ENGINE_UNAVAILABLE',
      'Temporal did not answer in time; check its address and try again.',
      {},
      { cause },
    );
  return new CountersignError(
    'RESULT_UNCERTAIN',
    `No answer from run ${runId} in time; it may or may not have taken the message. Is a worker running? Send it again with the same id: it counts once.`,
    { runId },
    { cause },
  );
}

function failedRun(error: WorkflowFailedError, runId: string): CountersignError {
  const coded = codedFailureIn(error.cause);
  if (coded !== undefined)
    return new CountersignError(coded.code, coded.message, { ...coded.facts, runId }, { cause: error });
  if (error.cause instanceof CancelledFailure)
    return new CountersignError('RUN_CANCELLED', `Run ${runId} was cancelled.`, { runId }, { cause: error });
  return new CountersignError(
    'RUN_FAILED',
    `Run ${runId} ended without a result: ${error.cause?.message ?? error.message}`,
    { runId },
    { cause: error },
  );
}

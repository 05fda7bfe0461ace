/** What Temporal's client throws, as errors of the one table; each says what to do next. */
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { CancelledFailure, NamespaceNotFoundError } from '@temporalio/common';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import { codedFailureIn } from '../contracts/failure.ts';

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
  if (error instanceof NamespaceNotFoundError)
    return new CountersignError(
      'SETUP_INCOMPLETE',
      `There is no namespace ${error.namespace}. Name another, or create it and run: countersign setup --namespace ${error.namespace}`,
      {},
      { cause: error },
    );
  return engineTrouble(error, runId);
}

/** By gRPC status code (grpc/grpc statuscodes.md); what is not named here has no other answer than Temporal's own words. */
function engineTrouble(error: unknown, runId: string): CountersignError {
  const trouble = (code: ErrorCode, message: string): CountersignError =>
    new CountersignError(code, message, runId === '' ? {} : { runId }, { cause: error });
  const cause = error instanceof ServiceError ? error.cause : error;
  if (!isGrpcServiceError(cause)) return trouble('INTERNAL', error instanceof Error ? error.message : String(error));
  switch (cause.code) {
    case grpcStatus.INVALID_ARGUMENT:
      return trouble('USAGE', `Temporal does not take that: ${cause.details}`);
    case grpcStatus.NOT_FOUND:
      // A call about no run in particular names nothing but its namespace.
      return runId === ''
        ? trouble(
            'SETUP_INCOMPLETE',
            `${cause.details} Name another namespace, or create it and run: countersign setup`,
          )
        : trouble('RUN_NOT_FOUND', `There is no run ${runId} in this namespace.`);
    case grpcStatus.CANCELLED:
    case grpcStatus.DEADLINE_EXCEEDED:
      return uncertain(runId, error);
    case grpcStatus.FAILED_PRECONDITION:
      return runId === ''
        ? trouble('INTERNAL', `Temporal refused: ${cause.details}`)
        : trouble(
            'RUN_STUCK',
            `Run ${runId} cannot take a workflow task: ${cause.details}. See the run in Temporal UI.`,
          );
    case grpcStatus.UNAVAILABLE:
      return trouble('ENGINE_UNAVAILABLE', 'Temporal does not answer; check its address and try again.');
    case grpcStatus.RESOURCE_EXHAUSTED:
      return trouble('ENGINE_UNAVAILABLE', `Temporal takes no more for now; try again later: ${cause.details}`);
    case grpcStatus.PERMISSION_DENIED:
    case grpcStatus.UNAUTHENTICATED:
      return trouble(
        'CONFIG_INVALID',
        `Temporal does not let this process in; check its API key or certificate, and the namespace: ${cause.details}`,
      );
    default:
      return trouble('INTERNAL', `Temporal refused: ${cause.details}`);
  }
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

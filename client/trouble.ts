/** What Temporal's client throws, as errors of the one table; each says what to do next. */
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  isGrpcServiceError,
  QueryNotRegisteredError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { CancelledFailure, NamespaceNotFoundError } from '@temporalio/common';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import { sentenceOf } from './stuck.ts';
import { namingOf, type Subject, workflowIdOf } from './subject.ts';

export function troubleOf(error: unknown, about: Subject): CountersignError {
  if (error instanceof CountersignError) return error;
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) return uncertain(about, error);
  if (isUnreplayable(error) && about !== '') return stuckOn(about, error.message, error);
  if (error instanceof WorkflowFailedError) return failedRun(error, about);
  const { title, missing, notThere, facts } = namingOf(about);
  const coded = codedFailureIn(error);
  if (coded !== undefined)
    return new CountersignError(coded.code, coded.message, { ...facts, ...coded.facts }, { cause: error });
  if (error instanceof WorkflowNotFoundError) return new CountersignError(missing, notThere, facts, { cause: error });
  if (error instanceof WorkflowExecutionAlreadyStartedError) {
    return new CountersignError('RUN_ID_CONFLICT', `${title} exists with another spec; choose another id.`, facts, {
      cause: error,
    });
  }
  if (error instanceof NamespaceNotFoundError)
    return new CountersignError(
      'SETUP_INCOMPLETE',
      `There is no namespace ${error.namespace}. Name another, or create it and run: countersign setup --namespace ${error.namespace}`,
      {},
      { cause: error },
    );
  return engineTrouble(error, about);
}

/** By gRPC status code (grpc/grpc statuscodes.md); what is not named here has no other answer than Temporal's own words. */
function engineTrouble(error: unknown, about: Subject): CountersignError {
  const { missing, notThere, facts } = namingOf(about);
  const trouble = (code: ErrorCode, message: string): CountersignError =>
    new CountersignError(code, message, facts, { cause: error });
  const cause = error instanceof ServiceError ? error.cause : error;
  if (!isGrpcServiceError(cause)) return trouble('INTERNAL', error instanceof Error ? error.message : String(error));
  switch (cause.code) {
    case grpcStatus.INVALID_ARGUMENT:
      if (/search attribute/i.test(cause.details) && cause.details.includes('Countersign'))
        return trouble(
          'SETUP_INCOMPLETE',
          `The namespace is not set up for runs: ${cause.details} Run: countersign setup`,
        );
      return trouble('USAGE', `Temporal does not take that: ${cause.details}`);
    case grpcStatus.NOT_FOUND:
      // A call about no run in particular names nothing but its namespace.
      return about === ''
        ? trouble(
            'SETUP_INCOMPLETE',
            `${cause.details} Name another namespace, or create it and run: countersign setup`,
          )
        : trouble(missing, notThere);
    case grpcStatus.CANCELLED:
    case grpcStatus.DEADLINE_EXCEEDED:
      return uncertain(about, error);
    case grpcStatus.FAILED_PRECONDITION:
      return about === ''
        ? trouble('INTERNAL', `Temporal refused: ${cause.details}`)
        : stuckOn(about, cause.details, error);
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

function stuckOn(about: Subject, reason: string, cause: unknown): CountersignError {
  const { title, stuck, facts } = namingOf(about);
  const message = `${title} cannot take a workflow task: ${sentenceOf(reason).replace(/\.+$/, '')}. See it in Temporal UI, and send this again with the same id once it has passed.${wayOut(about)}`;
  return new CountersignError(stuck, message, facts, { cause });
}

/** For what no worker can replay; the command says so itself where there is nothing to recover. */
function wayOut(about: Subject): string {
  const id = workflowIdOf(about);
  const reading = typeof about === 'string' ? 'show' : 'ledger';
  return ` What can be read of it: countersign ${reading} ${id}. The way out where no build can go on with it: countersign recover ${id}`;
}

/** A worker that cannot replay the run answers a query with that. */
function isUnreplayable(error: unknown): error is QueryNotRegisteredError {
  return error instanceof QueryNotRegisteredError && error.message.includes('[TMPRL1100]');
}

function uncertain(about: Subject, cause: unknown): CountersignError {
  // A call about no run in particular only reads.
  if (about === '')
    return new CountersignError(
      'ENGINE_UNAVAILABLE',
      'Temporal did not answer in time; check its address and try again.',
      {},
      { cause },
    );
  const { name, facts } = namingOf(about);
  return new CountersignError(
    'RESULT_UNCERTAIN',
    `No answer from ${name} in time; it may or may not have taken the message. Is a worker running? Send it again with the same id: it counts once.`,
    facts,
    { cause },
  );
}

function failedRun(error: WorkflowFailedError, about: Subject): CountersignError {
  const { title, facts } = namingOf(about);
  const coded = codedFailureIn(error.cause);
  if (coded !== undefined)
    return new CountersignError(coded.code, coded.message, { ...coded.facts, ...facts }, { cause: error });
  if (error.cause instanceof CancelledFailure)
    return new CountersignError('RUN_CANCELLED', `${title} was cancelled.`, facts, { cause: error });
  return new CountersignError(
    'RUN_FAILED',
    `${title} ended without a result: ${error.cause?.message ?? error.message}`,
    facts,
    { cause: error },
  );
}

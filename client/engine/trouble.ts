/**
 * Translates errors of Temporal's client to errors of the table, and finds out why nobody answers.
 *
 * 1. Each error says what to do next.
 * 2. A task queue is reported as unserved only if Temporal has seen no poller on it. If that cannot be found out,
 *    nothing is said.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  type Client,
  isGrpcServiceError,
  QueryNotRegisteredError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, NamespaceNotFoundError } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { CountersignError, type ErrorCode, type ErrorFacts } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { UNDECODABLE } from '../../contracts/payload-converter.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { lastWord, shellWord } from '../../domain/text/shell-word.ts';
import { sentenceOf } from './executions.ts';

export function troubleOf(error: unknown, about: Subject): CountersignError {
  if (error instanceof CountersignError) return error;
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) return uncertain(about, error);
  if (isQueryAnswer(error, UNREPLAYABLE) && about !== '') return stuckOn(about, error.message, error);
  if (error instanceof WorkflowFailedError) return failedRun(error, about);
  const { name, title, missing, stuck, notThere, facts } = namingOf(about);
  const trouble: Trouble = (code, message, also = facts) => new CountersignError(code, message, also, { cause: error });
  if (isOfAnotherKind(error) && about !== '') return trouble(missing, ofAnotherKind(about));
  if (isQueryAnswer(error, UNREAD_THERE)) {
    const message =
      'A worker cannot read what this client asks: their keys differ. Give this client the encryption.keys that the workers have.';
    return trouble('CONFIG_INVALID', message, { path: 'encryption.keys' });
  }
  if (isQueryAnswer(error, KEY_GONE)) {
    const message = `${title} can neither be read nor go on: its worker lacks the key of the zone by which it was proven, or its build asks something else. If a key was removed, put it back, as the last of trust.zone.keys of all workers (when it may go: countersign keys zone used KEY).${wayOut(about)}`;
    return trouble(stuck, message);
  }
  const coded = codedFailureIn(error);
  if (coded !== undefined)
    return trouble(coded.code, advised(coded.message, 'send it again'), { ...facts, ...coded.facts });
  if (isUnprocessed(error))
    return trouble(
      'ENGINE_UNAVAILABLE',
      `A worker finished its workflow task without the message to ${name}; nothing of it was recorded. Send it again with the same id.`,
    );
  if (error instanceof WorkflowNotFoundError) return trouble(missing, notThere);
  if (error instanceof WorkflowExecutionAlreadyStartedError)
    return trouble('RUN_ID_CONFLICT', `${title} exists with another spec; choose another id.`);
  if (error instanceof NamespaceNotFoundError) {
    const message = `There is no namespace ${error.namespace}. Name another, or create it and run: countersign setup --namespace ${error.namespace}`;
    return trouble('SETUP_INCOMPLETE', message, {});
  }
  return engineTrouble(error, about, trouble);
}

type Trouble = (code: ErrorCode, message: string, facts?: ErrorFacts) => CountersignError;

/** Translates by gRPC status code (grpc/grpc statuscodes.md). Any other status is told in Temporal's own words. */
function engineTrouble(error: unknown, about: Subject, trouble: Trouble): CountersignError {
  const { title, missing, notThere } = namingOf(about);
  const cause = error instanceof ServiceError ? error.cause : error;
  if (!isGrpcServiceError(cause)) return trouble('INTERNAL', error instanceof Error ? error.message : String(error));
  const { details } = cause;
  switch (cause.code) {
    case grpcStatus.INVALID_ARGUMENT:
      return /search attribute/i.test(details) && details.includes('Countersign')
        ? trouble('SETUP_INCOMPLETE', `The namespace is not set up for runs: ${details} Run: countersign setup`)
        : trouble('USAGE', `Temporal does not take that: ${details}`);
    case grpcStatus.NOT_FOUND:
      // A call about no particular run can name only its namespace.
      return about === ''
        ? trouble('SETUP_INCOMPLETE', `${details} Name another namespace, or create it and run: countersign setup`)
        : trouble(missing, notThere);
    case grpcStatus.CANCELLED:
    case grpcStatus.DEADLINE_EXCEEDED:
      return uncertain(about, error);
    case grpcStatus.FAILED_PRECONDITION:
      if (takesNoUpdates(cause))
        return trouble(
          'ENGINE_UNAVAILABLE',
          `${title} takes no more messages before it continues as new, which it does once what it has recorded is stored. Nothing of this one was recorded: send it again with the same id.`,
        );
      return about === '' ? trouble('INTERNAL', `Temporal refused: ${details}`) : stuckOn(about, details, error);
    case grpcStatus.UNAVAILABLE:
      return trouble('ENGINE_UNAVAILABLE', 'Temporal does not answer; check its address and try again.');
    case grpcStatus.RESOURCE_EXHAUSTED:
      return trouble('ENGINE_UNAVAILABLE', `Temporal takes no more for now; try again later: ${details}`);
    case grpcStatus.PERMISSION_DENIED:
    case grpcStatus.UNAUTHENTICATED:
      return trouble(
        'CONFIG_INVALID',
        `Temporal does not let this process in; check its API key or certificate, and the namespace: ${details}`,
      );
    default:
      return trouble('INTERNAL', `Temporal refused: ${details}`);
  }
}

/** True if the execution takes no more updates (`history.maxTotalUpdates`); it continues as new soon. */
export function takesNoUpdates(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error;
  return (
    isGrpcServiceError(cause) &&
    cause.code === grpcStatus.FAILED_PRECONDITION &&
    /total number of distinct updates/.test(cause.details)
  );
}

function stuckOn(about: Subject, reason: string, cause: unknown): CountersignError {
  const { title, stuck, facts } = namingOf(about);
  const why = NOBODY_POLLS.test(reason)
    ? 'Temporal sees no worker for it. It waits, and nothing of it is lost. Start a worker with the configuration of the other workers (countersign worker --config FILE), then send this again with the same id. If it stays with a build that is gone, move its runs: countersign deploy drain BUILD --move'
    : `${sentenceOf(reason).replace(/\.+$/, '')}. See it in Temporal UI, and send this again with the same id once it has passed.${wayOut(about)}`;
  return new CountersignError(stuck, `${title} cannot take a workflow task: ${why}`, facts, { cause });
}

/** Words of Temporal for a query to a task queue that nobody polls any more. */
const NOBODY_POLLS = /no poller seen/i;

/** The advice for a run that no worker can replay. If there is nothing to recover, the command itself says so. */
function wayOut(about: Subject): string {
  const id = lastWord(workflowIdOf(about));
  const reading = typeof about === 'string' ? 'show' : 'ledger';
  return ` What can be read of it: countersign ${reading} ${id}. The way out where no build can go on with it: countersign recover ${id}`;
}

/** Returns the worker's answer by which the next workflow task fails as this query did; undefined if there is none. */
export function unreadableBy({ cause }: CountersignError): Error | undefined {
  return isQueryAnswer(cause, UNREPLAYABLE) || isQueryAnswer(cause, KEY_GONE) ? cause : undefined;
}

/** The worker cannot replay the run. */
const UNREPLAYABLE = /\[TMPRL1100\]/;
/** It could not decrypt which page, or since when, is asked for (`workflows/entity/entity.ts`). */
const UNREAD_THERE = / is encrypted\b.*: ask with two numbers|What is asked about is encrypted\b/;
/** It cannot prove what the execution was given (`workflows/interceptors/zone.ts`). */
export const ZONE_KEY_GONE = 'its key is not among trust.zone.keys';
const KEY_GONE = new RegExp(ZONE_KEY_GONE);

/** True for the words of a worker in place of an answer to a query. */
function isQueryAnswer(error: unknown, words: RegExp): error is QueryNotRegisteredError {
  return error instanceof QueryNotRegisteredError && words.test(error.message);
}

/** True if the workflow has no such query or update, in the words of `@temporalio/workflow`. */
function isOfAnotherKind(error: unknown): boolean {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  return (
    isQueryAnswer(error, /did not register a handler for /) ||
    (cause instanceof ApplicationFailure && cause.message.startsWith('No registered handler for update: '))
  );
}

function ofAnotherKind(about: Subject): string {
  const id = workflowIdOf(about);
  if (typeof about !== 'string') return `Workflow ${id} is no catalog. Look at it in Temporal UI; nothing was changed.`;
  if (id.startsWith('catalog/'))
    return `Workflow ${id} is no run; nothing was changed. Catalogs have such ids: countersign catalog show SERVER --tenant TENANT, and countersign ledger ${id}.`;
  return `Workflow ${id} is no run, or its worker is older than this client; nothing was changed. countersign requests lists the runs that wait.`;
}

/**
 * True if a workflow task came back without an answer to the update: Temporal then rejects it, and records nothing
 * (temporalio/temporal#5169).
 */
function isUnprocessed(error: unknown): error is WorkflowUpdateFailedError {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  return cause instanceof ApplicationFailure && cause.type === 'UnprocessedUpdate';
}

function uncertain(about: Subject, cause: unknown): CountersignError {
  // A call about no particular run only reads, so nothing can be uncertain about it.
  if (about === '') {
    const message = 'Temporal did not answer in time; check its address and try again.';
    return new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause });
  }
  const { name, facts } = namingOf(about);
  const unknown = `No answer from ${name} in time; it may or may not have taken the message. Is a worker running? Send it again with the same id: it counts once.`;
  return new CountersignError('RESULT_UNCERTAIN', unknown, facts, { cause });
}

function failedRun(error: WorkflowFailedError, about: Subject): CountersignError {
  const { title, facts } = namingOf(about);
  const coded = codedFailureIn(error.cause);
  if (coded !== undefined) {
    const then = typeof about === 'string' ? 'start it under another id' : 'connect it again';
    const allFacts = { ...coded.facts, ...facts };
    return new CountersignError(coded.code, advised(coded.message, then), allFacts, { cause: error });
  }
  if (error.cause instanceof CancelledFailure)
    return new CountersignError('RUN_CANCELLED', `${title} was cancelled.`, facts, { cause: error });
  const message = `${title} ended without a result: ${error.cause?.message ?? error.message}`;
  return new CountersignError('RUN_FAILED', message, facts, { cause: error });
}

/** A workflow says of a message that it cannot be read; only its sender can do anything about that. */
function advised(message: string, then: string): string {
  // The message says itself that all workers need the keys, if a worker wrote what cannot be read.
  if (!message.includes(UNDECODABLE.sealed) || message.includes('workers need')) return message;
  return `${message} Give this client and all workers the same encryption.keys, and ${then}.`;
}

/** The subject of a call, which its errors name: a run by its id, a catalog, or (empty) nothing in particular. */
export type Subject = string | CatalogIdentity;

/**
 * Names a subject: `title` begins a sentence; `missing` and `notThere` are code and message if it does not exist,
 * `stuck` is the code if it can finish no workflow task.
 */
export function namingOf(subject: Subject) {
  if (typeof subject === 'string')
    return {
      name: `run ${subject}`,
      title: `Run ${subject}`,
      missing: 'RUN_NOT_FOUND',
      stuck: 'RUN_STUCK',
      notThere: `There is no open run ${subject} in this namespace. If the retention of the namespace is over, its record is where \`ledger\` of the configuration kept it.`,
      facts: subject === '' ? {} : { runId: subject },
    } as const;
  const { tenant, server } = subject;
  return {
    name: `the catalog of ${server}`,
    title: `The catalog of ${server}`,
    missing: 'CATALOG_NOT_FOUND',
    stuck: 'CATALOG_UNAVAILABLE',
    notThere: `Tenant ${tenant} has no catalog of ${server} in this namespace. Connect the server: countersign catalog connect ${server} --tenant ${shellWord(tenant)} --as ID`,
    facts: { tenant, server },
  } as const;
}

export function workflowIdOf(subject: Subject): string {
  return typeof subject === 'string' ? subject : catalogId(subject);
}

/** `temporal.api.enums.v1.TaskQueueType`. */
export const WORKFLOW_TASKS = 1;

/** One poll lasts up to a minute, and Temporal names pollers for some minutes after they have gone. */
const SEEN_WITHIN_MS = 90_000;

/** For a server under load: who waits already learns nothing better by waiting less. */
const MOST_MS = 5_000;
const EVERY_MS = 10_000;

/** Returns why nobody answers; undefined if a worker polls, or if that cannot be found out. */
export async function unserved(client: Client, about: Subject): Promise<CountersignError | undefined> {
  try {
    return await client.connection.withDeadline(Date.now() + MOST_MS, async () => {
      const { taskQueue } = await client.workflow.getHandle(workflowIdOf(about)).describe();
      return (await isPolled(client, taskQueue)) ? undefined : nobodyAt(client, taskQueue, about);
    });
  } catch {
    return undefined;
  }
}

/** Looks at once and then every 10 s; never throws. @param tell called once for each period in which no worker polls */
export async function tellUnserved(
  client: Client,
  about: Subject,
  tell: (trouble: CountersignError) => void,
  signal: AbortSignal,
): Promise<void> {
  let isTold = false;
  while (!signal.aborted) {
    const trouble = await unserved(client, about);
    if (signal.aborted) return;
    if (trouble !== undefined && !isTold) tell(trouble);
    isTold = trouble !== undefined;
    await pause(EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** @param build only workers of this build count */
export async function isPolled(client: Client, name: string, build?: string): Promise<boolean> {
  const { pollers } = await client.connection.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name },
    taskQueueType: WORKFLOW_TASKS,
  });
  const since = Date.now() - SEEN_WITHIN_MS;
  return pollers.some(
    ({ lastAccessTime, deploymentOptions }) =>
      (build === undefined || deploymentOptions?.buildId === build) &&
      (!lastAccessTime || tsToMs(lastAccessTime) >= since),
  );
}

function nobodyAt({ options: { namespace } }: Client, taskQueue: string, about: Subject): CountersignError {
  const { title, facts } = namingOf(about);
  const message = `No worker takes runs from task queue ${taskQueue} of namespace ${namespace}. ${title} waits, and nothing of it is lost; start a worker for that queue with the configuration of the other workers (--config): countersign worker --namespace ${namespace} --config FILE. If a worker runs and Temporal was away, try again: it asks for work again after about 10 s.`;
  return new CountersignError('ENGINE_UNAVAILABLE', message, { ...facts, taskQueue, namespace });
}

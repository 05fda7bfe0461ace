/**
 * Sends updates, and sends one again if Temporal lost it before the workflow could answer.
 *
 * 1. A message to a run is measured before it leaves. Temporal would report a larger one as a fault of the run, or not
 *    at all.
 */
import { isGrpcServiceError, ServiceError, WorkflowUpdateFailedError } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import { MOST_ARGUMENT_BYTES, MOST_SPEC_BYTES, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import type { Engine, Subject } from './engine.ts';

/** Temporary failures of what a handler needs: the configuration and the keys. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['CATALOG_UNAVAILABLE', 'JUDGE_UNAVAILABLE', 'TRUST_UNAVAILABLE']);

/** gRPC status code (grpc/grpc statuscodes.md). */
const GRPC_INTERNAL = 13;

/**
 * Sends one update; the id inside the message lets it count once, whatever update id it is sent under.
 * @param updateId comes from `updateIdOf`
 * @param message the answer must repeat its ids
 */
export async function sendUpdate<T>(
  engine: Engine,
  about: Subject,
  updateId: string | undefined,
  send: (id: { readonly updateId?: string }) => Promise<T>,
  message: object = {},
): Promise<T> {
  const attempt = async (id: { readonly updateId?: string }): Promise<T> => await engine.update(about, () => send(id));
  const own = updateId === undefined ? {} : { updateId };
  let answer: T;
  try {
    answer = await attempt(own);
  } catch (error) {
    if (isLostAtRollover(error)) answer = await attempt(own);
    // Temporal chooses the update id here; the id inside the message still lets the message count once.
    else if (updateId !== undefined && (isStuckUpdate(error) || isRecordedTrouble(error))) return await attempt({});
    else throw error;
  }
  // A namespace writer can use up an update id before this message comes; the workflow was then never asked.
  return updateId === undefined || repeats(answer, message) ? answer : await attempt({});
}

/** Fields that an answer repeats from its message, if the message has them. */
const REPEATED = ['decisionId', 'callId', 'standing', 'requestId'];

function repeats(answer: unknown, message: object): boolean {
  const said = Object.entries(message).filter(([name]) => REPEATED.includes(name));
  if (said.length === 0) return true;
  if (typeof answer !== 'object' || answer === null) return false;
  const told = new Map<string, unknown>(Object.entries(answer));
  return said.every(([name, value]) => told.get(name) === value);
}

/** Characters of a hash that stand in an update id. */
const HASH_CHARACTERS = 16;

/**
 * Makes the update id from the content of the message. Temporal answers every later update with the same id as it
 * answered the first, without reading it. With the content in the id, another message under the same decision id
 * reaches the workflow and is judged. docs/guide/starting-from-any-language.md gives the rule for other languages.
 * @param message without its signature, so that a message signed anew keeps its id
 * @param id the message's own id, if it has one
 */
export function updateIdOf(update: string, message: object, id?: string): string {
  return [update, ...(id === undefined ? [] : [id]), hashOf(message).slice(0, HASH_CHARACTERS)].join('/');
}

/**
 * True if the update was accepted in the very task in which the workflow continued as new. The next execution answers
 * the same id (Temporal #6375).
 */
function isLostAtRollover(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1) {
    if ('type' in at && at.type === 'AcceptedUpdateCompletedWorkflow') return true;
  }
  return false;
}

/**
 * True for an update that Temporal delivered again after a reset and that the workflow then refused.
 * Its id answers nothing but "update has not completed" for ever (Temporal server 1.29.1).
 */
function isStuckUpdate(error: unknown): boolean {
  const cause = error instanceof Error && error.cause instanceof ServiceError ? error.cause.cause : undefined;
  return isGrpcServiceError(cause) && cause.code === GRPC_INTERNAL;
}

/**
 * True for a trouble that may have passed, but that Temporal would keep answering under this id without asking the
 * workflow.
 */
function isRecordedTrouble(error: unknown): boolean {
  if (!(error instanceof CountersignError)) return false;
  // A client reports Temporal's own outages with the same code; in that case nothing is recorded.
  return (
    PASSING.has(error.code) || (error.code === 'ENGINE_UNAVAILABLE' && error.cause instanceof WorkflowUpdateFailedError)
  );
}

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** @throws CountersignError `ARGUMENTS_TOO_LARGE` above the most that any run's limits can allow */
export function assertArgumentsFit(decision: Decision): void {
  const given = decision.kind === 'approve' ? decision.arguments : undefined;
  const bytes = given === undefined ? 0 : byteLength(JSON.stringify(given));
  if (bytes <= MOST_ARGUMENT_BYTES) return;
  throw new CountersignError(
    'ARGUMENTS_TOO_LARGE',
    `Arguments have ${bytes} bytes; no run allows more than ${MOST_ARGUMENT_BYTES}. Nothing was sent.`,
    { callId: decision.callId, path: 'arguments' },
  );
}

/** @throws CountersignError `LIMIT_REACHED` */
export function assertMessageFits(message: unknown): void {
  const bytes = byteLength(JSON.stringify(message ?? null));
  if (bytes <= MESSAGE_BYTES) return;
  throw new CountersignError(
    'LIMIT_REACHED',
    `The message has ${bytes} bytes; ${MESSAGE_BYTES} are allowed. Nothing was sent.`,
    { limit: 'message' },
  );
}

/**
 * Applies the same limit as the worker that prepares the run.
 * @throws CountersignError `SPEC_INVALID`
 */
export function assertSpecFits(spec: RunSpecInput): void {
  const bytes = byteLength(JSON.stringify(spec));
  if (bytes <= MOST_SPEC_BYTES) return;
  throw new CountersignError(
    'SPEC_INVALID',
    `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead. Nothing was started.`,
  );
}

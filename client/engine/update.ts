/** An update, sent again where Temporal lost it without the workflow having had a say. */
import { isGrpcServiceError, ServiceError, WorkflowUpdateFailedError } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { Decision } from '../../contracts/schemas/answer.ts';
import { MOST_ARGUMENT_BYTES, MOST_SPEC_BYTES, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import type { Engine, Subject } from './engine.ts';

/** Troubles of what a handler asks: of the configuration, and of keys. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['CATALOG_UNAVAILABLE', 'JUDGE_UNAVAILABLE', 'TRUST_UNAVAILABLE']);

/** gRPC status code (grpc/grpc statuscodes.md). */
const GRPC_INTERNAL = 13;

/** @param updateId of `updateIdOf`; the id inside the message lets it count once, whatever it is sent under @param message what the answer must be to */
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
    // Under an id of Temporal's choice; the id inside the message still lets it count once.
    else if (updateId !== undefined && (isStuckUpdate(error) || isRecordedTrouble(error))) return await attempt({});
    else throw error;
  }
  // Whoever may write to the namespace can use an id up before it comes: then the workflow was not asked.
  return updateId === undefined || repeats(answer, message) ? answer : await attempt({});
}

/** What an answer repeats of its message, where the message has it. */
const REPEATED = ['decisionId', 'callId', 'standing', 'requestId'];

function repeats(answer: unknown, message: object): boolean {
  const said = Object.entries(message).filter(([name]) => REPEATED.includes(name));
  if (said.length === 0) return true;
  if (typeof answer !== 'object' || answer === null) return false;
  const told = new Map<string, unknown>(Object.entries(answer));
  return said.every(([name, value]) => told.get(name) === value);
}

/** Of a hash, what stands in an update id. */
const HASH_CHARACTERS = 16;

/**
 * Temporal answers all that comes under one update id as it answered the first, unread. So the update id is of this very message, and
 * another one under the same decision id is judged. The rule for other languages is in docs/guide/starting-from-any-language.md.
 * @param message without its signature: signed anew it is the same @param id its own, where it has one
 */
export function updateIdOf(update: string, message: object, id?: string): string {
  return [update, ...(id === undefined ? [] : [id]), hashOf(message).slice(0, HASH_CHARACTERS)].join('/');
}

/** Accepted in the very task in which the workflow continued as new: the next execution answers the same id (Temporal #6375). */
function isLostAtRollover(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1) {
    if ('type' in at && at.type === 'AcceptedUpdateCompletedWorkflow') return true;
  }
  return false;
}

/**
 * The id of an update that Temporal delivered again after a reset, and that the workflow refused then, answers nothing but "update
 * has not completed" for ever (Temporal server 1.29.1).
 */
function isStuckUpdate(error: unknown): boolean {
  const cause = error instanceof Error && error.cause instanceof ServiceError ? error.cause.cause : undefined;
  return isGrpcServiceError(cause) && cause.code === GRPC_INTERNAL;
}

/** A trouble that may have passed, and that Temporal would go on answering under this id without asking the workflow. */
function isRecordedTrouble(error: unknown): boolean {
  if (!(error instanceof CountersignError)) return false;
  // Of Temporal itself a client says the same: then nothing is recorded.
  return (
    PASSING.has(error.code) || (error.code === 'ENGINE_UNAVAILABLE' && error.cause instanceof WorkflowUpdateFailedError)
  );
}

// How large a message to a run may be, looked at before it leaves: what is larger than Temporal takes comes back as a fault of the
// run, or not at all.

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** @throws CountersignError `ARGUMENTS_TOO_LARGE`: no run may allow more, whatever its limits are */
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

/** As a worker refuses it once the run has begun. @throws CountersignError `SPEC_INVALID` */
export function assertSpecFits(spec: RunSpecInput): void {
  const bytes = byteLength(JSON.stringify(spec));
  if (bytes <= MOST_SPEC_BYTES) return;
  throw new CountersignError(
    'SPEC_INVALID',
    `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead. Nothing was started.`,
  );
}

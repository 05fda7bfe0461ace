/** An update, sent again where Temporal lost it without the workflow having had a say. */
import { isGrpcServiceError, ServiceError, WorkflowUpdateFailedError } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import { hashOf } from '../domain/canonical.ts';
import type { Engine } from './engine.ts';
import type { Subject } from './subject.ts';

/** Troubles of what a handler asks: of the configuration, and of keys. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['CATALOG_UNAVAILABLE', 'JUDGE_UNAVAILABLE', 'TRUST_UNAVAILABLE']);

/** gRPC status code (grpc/grpc statuscodes.md). */
const GRPC_INTERNAL = 13;

/** @param updateId the id inside the message, by which it counts once, whatever it is sent under */
export async function sendUpdate<T>(
  engine: Engine,
  about: Subject,
  updateId: string | undefined,
  send: (id: { readonly updateId?: string }) => Promise<T>,
): Promise<T> {
  const attempt = async (id: { readonly updateId?: string }): Promise<T> => await engine.update(about, () => send(id));
  const own = updateId === undefined ? {} : { updateId };
  try {
    return await attempt(own);
  } catch (error) {
    if (isLostAtRollover(error)) return await attempt(own);
    // Under an id of Temporal's choice; the id inside the message still lets it count once.
    if (updateId !== undefined && (isStuckUpdate(error) || isRecordedTrouble(error))) return await attempt({});
    throw error;
  }
}

/** Temporal gives what comes under one id one answer, unread: so the id is of this very message, and another one is judged. */
export function updateIdOf(name: string, message: unknown): string {
  return `${name}-${hashOf(message).slice(0, 16)}`;
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

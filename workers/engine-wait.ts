/**
 * Lets a worker that starts before Temporal does, or while it is slow, try again: for a bounded time, with a
 * message after each try.
 *
 * 1. Only failures that may pass are waited out. A service that refuses this process, or lacks the namespace, will not
 *    answer otherwise after a minute.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import { isGrpcServiceError, ServiceError } from '@temporalio/client';
import { CountersignError } from '../contracts/errors.ts';

export interface EngineWait {
  /** Address of Temporal, for messages. */
  readonly address: string;
  readonly seconds: number;
  /** Called after each try that failed. */
  readonly say: (message: string, meta: { readonly address: string; readonly secondsLeft: number }) => void;
  readonly signal?: AbortSignal;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
const LONGEST_TRY_MS = 10_000;

const PASSING: ReadonlySet<number> = new Set([
  grpcStatus.UNAVAILABLE,
  grpcStatus.DEADLINE_EXCEEDED,
  grpcStatus.RESOURCE_EXHAUSTED,
  grpcStatus.CANCELLED,
]);

/**
 * @param start is told how long it may take, unless nobody waits
 * @throws CountersignError `ENGINE_UNAVAILABLE` at the end of the time, or what `start` threw if that does not pass
 */
export async function onceThere<T>(wait: EngineWait | undefined, start: (mostMs?: number) => Promise<T>): Promise<T> {
  if (wait === undefined) return await start();
  const { address, seconds, say, signal } = wait;
  const end = Date.now() + seconds * 1_000;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    try {
      return await start(Math.max(FIRST_PAUSE_MS, Math.min(LONGEST_TRY_MS, end - Date.now())));
    } catch (error) {
      if (!isAway(error) || signal?.aborted === true) throw error;
      const secondsLeft = Math.max(0, Math.ceil((end - Date.now()) / 1_000));
      if (secondsLeft === 0) {
        const message = `Temporal did not answer at ${address} in ${seconds} s. Start it (npm run dev), or name another with --address; --deadline has the worker wait longer.`;
        throw new CountersignError('ENGINE_UNAVAILABLE', message, { address }, { cause: error });
      }
      say(`Temporal does not answer at ${address}; the worker tries again for ${secondsLeft} s.`, {
        address,
        secondsLeft,
      });
    }
    await pause(Math.min(pauseMs, Math.max(1, end - Date.now())), undefined, { ...(signal && { signal }) }).catch(
      () => undefined,
    );
  }
}

/** Recognises errors of the native connection by text and name, and that of an unused channel by text alone. */
export function isAway(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error.name === 'TransportError' || /Failed to connect before the deadline/.test(error.message)) return true;
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) && PASSING.has(cause.code);
}

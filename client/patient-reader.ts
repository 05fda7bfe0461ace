/**
 * The reads of one watch: what cannot be read now is asked again, as long as the watch may last.
 *
 * Owns: how long, how often, and which error is told in the end. Does not own: what is read.
 * 1. The first answer must come within the deadline of one call, or of the watch, so that a watch which cannot begin says so.
 * 2. Later, no pause of workers or of Temporal ends a watch: only its own deadline, its signal, or an error that stays.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isGrpcCancelledError } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import type { Engine } from './engine.ts';

export interface Patience {
  readonly signal?: AbortSignal;
  /** Of the whole watch; without it, until the run ends. */
  readonly deadlineMs?: number;
  /** Told once for each pause: why nothing can be read for now. */
  readonly onPause?: (trouble: CountersignError) => void;
}

/** The watch has lasted as long as it may, and nothing is wrong. */
export class TimeIsUp extends Error {}

/** What passes: workers that are away or cannot take the run yet, and Temporal itself. */
const PASSING: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN', 'RUN_STUCK'];

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

export class PatientReader {
  readonly #engine: Engine;
  readonly #workflowId: string;
  readonly #patience: Patience;
  readonly #end: number;
  readonly #begunBy: number;
  #hasBegun = false;
  /** Why the last attempt brought nothing. */
  #trouble: CountersignError | undefined;

  constructor(engine: Engine, workflowId: string, patience: Patience) {
    this.#engine = engine;
    this.#workflowId = workflowId;
    this.#patience = patience;
    const now = Date.now();
    this.#end = now + (patience.deadlineMs ?? Number.POSITIVE_INFINITY);
    this.#begunBy = now + (patience.deadlineMs ?? engine.deadlineMs);
  }

  /** What Temporal itself answers, however long that takes. @param mostMs deadline of one attempt. @throws as `read` */
  async poll<T>(act: () => Promise<T>, mostMs: number): Promise<T> {
    return await this.#repeated(mostMs, async (ms) => await this.#engine.read(this.#workflowId, act, ms));
  }

  /** @param mostMs deadline of one attempt. @throws CountersignError, or `TimeIsUp` */
  async read<T>(act: () => Promise<T>, mostMs = this.#engine.deadlineMs): Promise<T> {
    return await this.#repeated(mostMs, async (ms) => await this.#engine.query(this.#workflowId, act, ms));
  }

  async #repeated<T>(mostMs: number, attempt: (ms: number) => Promise<T>): Promise<T> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
      this.#patience.signal?.throwIfAborted();
      const left = this.#left;
      if (left <= 0) throw this.#trouble ?? new TimeIsUp();
      try {
        const answer = await this.#abortable(() => attempt(Math.min(mostMs, left)));
        this.#trouble = undefined;
        this.#hasBegun = true;
        return answer;
      } catch (error) {
        this.#bear(error, left < mostMs);
      }
      await pause(Math.max(0, Math.min(pauseMs, this.#left)), undefined, this.#patience);
    }
  }

  /** @param isShort the attempt had less time than a call has. @throws what does not pass */
  #bear(error: unknown, isShort: boolean): void {
    const { signal, onPause } = this.#patience;
    const passes = error instanceof CountersignError && PASSING.includes(error.code);
    if (signal?.aborted === true || !passes) throw error;
    // A server that shuts down cancels calls; whoever is cancelled again has a connection that was closed on this side.
    if (isGrpcCancelledError(error) && isGrpcCancelledError(this.#trouble)) throw error;
    // An attempt that the deadline of a watch cut short says nothing about workers that have answered until then.
    if (isShort && this.#hasBegun && this.#left <= 0) return;
    if (this.#trouble === undefined) onPause?.(error);
    this.#trouble = error;
  }

  get #left(): number {
    return (this.#hasBegun ? this.#end : this.#begunBy) - Date.now();
  }

  async #abortable<T>(act: () => Promise<T>): Promise<T> {
    const { signal } = this.#patience;
    if (signal === undefined) return await act();
    // A signal of its own for each call: the connection never takes its listener off the one it is given.
    return await this.#engine.client.connection.withAbortSignal(AbortSignal.any([signal]), act);
  }
}

/**
 * The events of a run as they happen: ledger entries, in order, each once, across continue-as-new.
 *
 * 1. Temporal's history long poll only wakes; what is told comes from the ledger, from the cursor on.
 * 2. What the followed execution does not hold comes from stored segments, or the watch fails: no entry is left out.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isGrpcCancelledError, isGrpcDeadlineError } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import type { Engine } from '../engine/engine.ts';
import { type ArtifactReader, entriesFrom, ledgerPage } from '../ledger/ledger.ts';
import { type CallProgress, readProgress, tellingOnce, tellWhile } from './progress.ts';
import { type Retry, tellingRetriesOnce } from './retries.ts';

export interface WatchOptions extends Patience {
  /** Number of the first entry wanted. */
  readonly cursor?: number;
  /** Told of calls that servers work on, whenever there is news of one; it is not in the ledger. */
  readonly onTasks?: (news: readonly RunningTask[]) => void;
  /** Told how far calls have come whose answer a worker waits for, whenever their servers have said so; it is not in the ledger. */
  readonly onProgress?: (news: readonly CallProgress[]) => void;
  /** Told what is tried again, and why, whenever a step fails for another reason; it is not in the ledger. */
  readonly onRetry?: (news: readonly Retry[]) => void;
}

export async function* watchRun(
  engine: Engine,
  workflowId: string,
  artifacts: ArtifactReader | undefined,
  { cursor = 0, onTasks, onProgress, onRetry, ...patience }: WatchOptions,
): AsyncGenerator<LedgerEntry> {
  const { client } = engine;
  const reader = new PatientReader(engine, workflowId, patience);
  let next = cursor;
  /** What each server said last of a call. */
  const told = new Map<string, string | undefined>();
  const progressOf = onProgress === undefined ? undefined : tellingOnce(onProgress);
  const retriesOf = onRetry === undefined ? undefined : tellingRetriesOnce(onRetry);
  try {
    let runId: string | undefined = (await reader.read(() => client.workflow.getHandle(workflowId).describe())).runId;
    while (runId !== undefined) {
      const source = { workflowId, runId, artifacts };
      const ask = async (from: number) => await reader.read(() => ledgerPage(client, source, from));
      const follower: Follower = new Follower(engine, reader, { workflowId, runId });
      for (;;) {
        const ended: boolean = follower.ended;
        for await (const entry of entriesFrom(source, next, ask)) {
          yield entry;
          next = entry.seq + 1;
          if (patience.signal?.aborted === true) return;
        }
        if (ended) break;
        if (onTasks !== undefined) {
          const handle = client.workflow.getHandle(workflowId, runId);
          const { tasks = [] } = await reader.read(() => handle.query<RunState>(QUERIES.state));
          const news = tasks.filter((task) => told.get(task.callId) !== task.message);
          for (const { callId, message } of news) told.set(callId, message);
          if (news.length > 0) onTasks(news);
        }
        const waiting = follower.wait();
        if (progressOf !== undefined || retriesOf !== undefined) {
          const look = async () => await engine.read(workflowId, () => readProgress(client, workflowId, source.runId));
          await tellWhile(waiting, look, ({ progress, retries }) => {
            progressOf?.(progress);
            retriesOf?.(retries);
          });
        }
        await waiting;
      }
      runId = follower.continuedIn;
    }
  } catch (error) {
    if (patience.signal?.aborted === true) return;
    throw error instanceof TimeIsUp ? goesOn(workflowId, next, error) : error;
  }
}

function goesOn(runId: string, cursor: number, cause: TimeIsUp): CountersignError {
  const message = `Run ${runId} goes on; it was watched as long as was asked for. Watch it again from entry ${cursor} on.`;
  return new CountersignError('RESULT_UNCERTAIN', message, { runId, cursor }, { cause });
}

// Follows the history of one execution by long polls, only to know when to look again and when it is over.

/** One long poll; the server answers empty after about 20 s. */
const POLL_MS = 60_000;

class Follower {
  ended = false;
  /** Temporal run id of the execution that goes on with the run. */
  continuedIn: string | undefined;
  readonly #engine: Engine;
  readonly #reader: PatientReader;
  readonly #execution: { readonly workflowId: string; readonly runId: string };
  #token: Uint8Array | undefined;

  constructor(engine: Engine, reader: PatientReader, execution: { workflowId: string; runId: string }) {
    this.#engine = engine;
    this.#reader = reader;
    this.#execution = execution;
  }

  /** Returns when something has happened in the run, or a poll ended without news. */
  async wait(): Promise<void> {
    const page = await this.#reader.poll(() => this.#poll(), POLL_MS);
    if (page === undefined) return;
    this.#token = page.nextPageToken;
    for (const event of page.history?.events ?? []) {
      const continued = event.workflowExecutionContinuedAsNewEventAttributes;
      if (continued !== null && continued !== undefined) this.continuedIn = continued.newExecutionRunId ?? undefined;
    }
    // The server gives no token once the execution is closed.
    this.ended = page.nextPageToken === null || page.nextPageToken === undefined || page.nextPageToken.length === 0;
  }

  async #poll() {
    const { connection, options } = this.#engine.client;
    try {
      return await connection.workflowService.getWorkflowExecutionHistory({
        namespace: options.namespace,
        execution: this.#execution,
        waitNewEvent: true,
        ...(this.#token === undefined ? {} : { nextPageToken: this.#token }),
      });
    } catch (error) {
      // Silence up to the deadline is what a run does in which nothing happens.
      if (isGrpcDeadlineError(error)) return undefined;
      throw error;
    }
  }
}

// The reads of one watch: what cannot be read now is asked again, as long as the watch may last.
//
// Owns: how long, how often, and which error is told in the end. Does not own: what is read.
// 1. The first answer must come within the deadline of one call, or of the watch, so that a watch which cannot begin says so.
// 2. Later, no pause of workers or of Temporal ends a watch: only its own deadline, its signal, or an error that stays.

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

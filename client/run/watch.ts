/**
 * Follows a run: it yields ledger entries in order, each once, across continue-as-new.
 *
 * 1. Temporal's history long poll only wakes the watch; the entries come from the ledger, from the cursor on.
 * 2. Entries that the execution no longer holds come from stored segments, or the watch fails: none is left out.
 * 3. The first answer must come within the deadline of one call, or of the watch if that is shorter.
 * 4. A run that no worker can take on from the first answer on is said to be stuck after that deadline.
 * 5. After that, only its own deadline, its signal, or a permanent error ends a watch.
 * 6. A reset takes entries back that were told: the watch fails then, so that whoever follows begins anew.
 */
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, isGrpcCancelledError, isGrpcDeadlineError } from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type { LedgerPage, RunState } from '../../contracts/schemas/run-state.ts';
import { readRequests } from '../engine/answers.ts';
import { askWorkflow, type Engine } from '../engine/engine.ts';
import { endOf, nextEvents, wasReset } from '../engine/executions.ts';
import { type ArtifactReader, entriesFrom, ledgerPage, type LedgerSource } from '../ledger/ledger.ts';
import { openedRequests } from './opened-request.ts';
import { type CallProgress, readProgress, type Retry, tellingOnce, tellingRetriesOnce, tellWhile } from './progress.ts';

export interface WatchOptions extends Patience {
  /** Number of the first entry to yield. */
  readonly cursor?: number;
  /** Entries `request.opened` say what they are about: the run is asked for it, since the ledger does not have it. */
  readonly details?: boolean;
  /** Called with news of calls that servers work on as tasks; the ledger does not have these. */
  readonly onTasks?: (news: readonly RunningTask[]) => void;
  /** Called when servers report progress of calls whose answer a worker waits for; the ledger does not have it. */
  readonly onProgress?: (news: readonly CallProgress[]) => void;
  /** Called when a step fails for a new reason and is tried again; the ledger does not have it. */
  readonly onRetry?: (news: readonly Retry[]) => void;
}

export async function* watchRun(
  engine: Engine,
  workflowId: string,
  artifacts: ArtifactReader | undefined,
  { cursor = 0, details = false, onTasks, onProgress, onRetry, ...patience }: WatchOptions,
): AsyncGenerator<RunEvent> {
  const { client } = engine;
  const reader = new PatientReader(engine, workflowId, patience);
  let next = cursor;
  const tasksOf = onTasks && tellingOnce<RunningTask>(({ message }) => message, onTasks);
  const progressOf = onProgress && tellingOnce<CallProgress>(({ progress }) => progress, onProgress);
  const retriesOf = onRetry && tellingRetriesOnce(onRetry);
  try {
    const handle = client.workflow.getHandle(workflowId);
    let runId: string | undefined = (await reader.poll(() => handle.describe(), engine.deadlineMs)).runId;
    while (runId !== undefined) {
      const source = { workflowId, runId, artifacts };
      const assertNotReset = async (): Promise<void> => {
        if (!(await wasReset(client, source))) return;
        const message = `Run ${workflowId} was reset, and its ledger from there on is another one. Read it again from the first entry on.`;
        throw new CountersignError('RUN_RESET', message, { runId: workflowId });
      };
      const read = readingOf(reader, assertNotReset);
      const { opened, pageFrom } = pagesOf(client, source, read);
      const { seen, wait } = followed(client, reader, { workflowId, runId });
      for (;;) {
        const { ended } = seen;
        for await (const entry of entriesFrom(source, next, pageFrom)) {
          yield details ? await opened.joined(entry) : entry;
          next = entry.seq + 1;
          if (patience.signal?.aborted === true) return;
        }
        if (ended) break;
        if (tasksOf !== undefined) {
          const execution = client.workflow.getHandle(workflowId, runId);
          const { tasks = [] } = await read(() => askWorkflow<RunState>(execution, QUERIES.state));
          tasksOf(tasks);
        }
        const waiting = wait();
        if (progressOf !== undefined || retriesOf !== undefined) {
          const look = async () => await engine.read(workflowId, () => readProgress(client, workflowId, source.runId));
          await tellWhile(waiting, look, ({ progress, retries }) => {
            progressOf?.(progress);
            retriesOf?.(retries);
          });
        }
        await waiting;
        if (seen.ended && seen.continuedIn === undefined) await reader.poll(assertNotReset, engine.deadlineMs);
      }
      runId = seen.continuedIn;
    }
  } catch (error) {
    if (patience.signal?.aborted === true) return;
    if (!(error instanceof TimeIsUp)) throw error;
    const message = `Run ${workflowId} goes on; it was watched as long as was asked for. Watch it again from entry ${next} on.`;
    throw new CountersignError('RESULT_UNCERTAIN', message, { runId: workflowId, cursor: next }, { cause: error });
  }
}

type Read = <T>(act: () => Promise<T>) => Promise<T>;

/** Reads from one execution. Before it asks again, it looks whether a reset has replaced it. */
function readingOf(reader: PatientReader, assertNotReset: () => Promise<void>): Read {
  return async (act) => {
    let hasFailed = false;
    return await reader.read(async () => {
      if (hasFailed) await assertNotReset();
      hasFailed = true;
      return await act();
    });
  };
}

function pagesOf(client: Client, source: LedgerSource, read: Read) {
  const { workflowId, runId } = source;
  const execution = client.workflow.getHandle(workflowId, runId);
  const opened = openedRequests(async () =>
    readRequests(workflowId, await read(() => askWorkflow<unknown>(execution, QUERIES.requests))),
  );
  const pageFrom = async (from: number): Promise<LedgerPage> => {
    opened.forget();
    return await read(() => ledgerPage(client, source, from));
  };
  return { opened, pageFrom };
}

/** Deadline of one long poll; the server answers empty after about 20 s. */
const POLL_MS = 60_000;

/** Polls the history of one execution, which says only when to look again, and when the execution is over. */
function followed(client: Client, reader: PatientReader, execution: { workflowId: string; runId: string }) {
  /** `continuedIn` is the Temporal run id of the execution that continues the run. */
  const seen: { ended: boolean; continuedIn?: string | undefined } = { ended: false };
  let token: Uint8Array | undefined;
  /** Returns when something has happened in the run, or when a poll ended without news. */
  const wait = async (): Promise<void> => {
    const page = await reader.poll(() => nextEvents(client, execution, token), POLL_MS);
    if (page === undefined) return;
    token = page.nextPageToken;
    for (const event of page.history?.events ?? [])
      seen.continuedIn ??= event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
    // The server gives no token once the execution is closed.
    seen.ended = !page.nextPageToken?.length;
  };
  return { seen, wait };
}

export interface Patience {
  readonly signal?: AbortSignal;
  /** Duration of the whole watch; without it, the watch lasts until the run ends. */
  readonly deadlineMs?: number;
  /** Called once for each pause, with the reason why nothing can be read for now. */
  readonly onPause?: (trouble: CountersignError) => void;
}

/** The watch has lasted as long as it may, and nothing is wrong. */
export class TimeIsUp extends Error {}

/** Troubles that pass: workers are away or cannot take the run yet, or Temporal itself is away. */
const PASSING: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN', 'RUN_STUCK'];

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/** Repeats the readings of one watch for as long as the watch may last. */
export class PatientReader {
  readonly #engine: Engine;
  readonly #workflowId: string;
  readonly #patience: Patience;
  readonly #end: number;
  readonly #begunBy: number;
  #hasBegun = false;
  /** True once a worker has answered; Temporal itself may have begun the watch. */
  #isTakenOn = false;
  #trouble: CountersignError | undefined;

  constructor(engine: Engine, workflowId: string, patience: Patience) {
    this.#engine = engine;
    this.#workflowId = workflowId;
    this.#patience = patience;
    const now = Date.now();
    this.#end = now + (patience.deadlineMs ?? Number.POSITIVE_INFINITY);
    this.#begunBy = Math.min(this.#end, now + engine.deadlineMs);
  }

  /** Reads from Temporal itself, without asking a worker. @param mostMs deadline of one attempt @throws as `read` */
  async poll<T>(act: () => Promise<T>, mostMs: number): Promise<T> {
    return await this.#repeated(mostMs, async (ms) => await this.#engine.read(this.#workflowId, act, ms));
  }

  /** Reads from a worker. @param mostMs deadline of one attempt @throws CountersignError, or `TimeIsUp` */
  async read<T>(act: () => Promise<T>, mostMs = this.#engine.deadlineMs): Promise<T> {
    const answer = await this.#repeated(mostMs, async (ms) => await this.#engine.query(this.#workflowId, act, ms));
    this.#isTakenOn = true;
    return answer;
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

  /** Remembers a trouble that passes, and throws any other. @param isShort true for an attempt that was cut short */
  #bear(error: unknown, isShort: boolean): void {
    const { signal, onPause } = this.#patience;
    const passes = error instanceof CountersignError && PASSING.includes(error.code);
    // A run that was stuck when the watch began stays so, as far as can be told: its history says more.
    const isStuckForGood = passes && error.code === 'RUN_STUCK' && !this.#isTakenOn && Date.now() >= this.#begunBy;
    if (signal?.aborted === true || !passes || isStuckForGood) throw error;
    // A server that shuts down cancels calls; at a second time in a row this side has closed the connection.
    if (isGrpcCancelledError(error) && isGrpcCancelledError(this.#trouble)) throw error;
    // The watch's deadline cut this attempt short: this says nothing against workers, who have answered until then.
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
    // Each call gets a signal of its own, because the connection never removes its listener from a signal.
    return await this.#engine.client.connection.withAbortSignal(AbortSignal.any([signal]), act);
  }
}

/** A caller may give every call the deadline of its wait, as commands do. */
const LONGEST_CALL_MS = 10_000;
const AGAIN_MS = 1_000;
/** Temporal does not answer, or has ended the call: a server that shuts down cancels calls. */
const AWAY: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN'];

/**
 * Waits in calls that last as long as the run.
 * @returns what the workflow returns
 * @throws CountersignError, or `TimeIsUp`
 */
export async function endOfRun(
  engine: Engine,
  workflowId: string,
  patience: Patience & { deadlineMs: number },
): Promise<unknown> {
  const { deadlineMs, signal } = patience;
  const { connection, workflow } = engine.client;
  const handle = workflow.getHandle(workflowId);
  // Temporal's client hears a signal only when it is aborted, not that it is already.
  signal?.throwIfAborted();
  const end = Date.now() + deadlineMs;
  const ended = async (): Promise<unknown> => await endOf(handle);
  const act = signal === undefined ? ended : () => connection.withAbortSignal(oneWait(signal), ended);
  const wait = async () => await engine.call(workflowId, act, Math.max(1, end - Date.now()));
  const callMs = Math.min(engine.deadlineMs, LONGEST_CALL_MS);
  // A wait as short as a call has no time for pauses, and needs no other question.
  if (deadlineMs <= callMs) return await wait();
  const reader = new PatientReader(engine, workflowId, patience);
  for (;;) {
    // Asked first: a call that lasts as long as the run would hide for as long that Temporal is away.
    await reader.poll(() => handle.describe(), callMs);
    try {
      return await wait();
    } catch (error) {
      const isAway = error instanceof CountersignError && AWAY.includes(error.code);
      const isLate = isGrpcDeadlineError(error) && end - Date.now() <= AGAIN_MS;
      if (!isAway || isLate || signal?.aborted === true) throw error;
    }
    await pause(Math.max(0, Math.min(AGAIN_MS, end - Date.now())), undefined, defined({ signal }));
  }
}

/** The SDK adds a listener to the signal with each poll, and takes none away: they end with this wait. */
function oneWait(signal: AbortSignal): AbortSignal {
  const own = AbortSignal.any([signal]);
  setMaxListeners(0, own);
  return own;
}

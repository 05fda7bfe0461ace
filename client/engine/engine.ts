/**
 * The engine is the client's only way to Temporal: every call has a deadline, and each failure a code (`trouble.ts`).
 *
 * 1. Updates of one run wait for each other in `Lanes`, so that only a few are in flight.
 * 2. An update that Temporal lost is sent again; the id inside the message lets it count once. One that came when the
 *    execution took no more is sent to the next.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  type WorkflowExecutionInfo,
  type WorkflowHandle,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { askedAgain, askedAt, isRefusedQuery, untilAnswered } from '../../contracts/failure.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import { listExecutions } from './executions.ts';
import { namingOf, type Subject, takesNoUpdates, troubleOf, unserved, workflowIdOf } from './trouble.ts';

/** A worker that is there answers in a fraction of this time, except under load. */
const LOOK_AFTER_MS = 2_000;
const SILENCE: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RUN_STUCK'];

const DEADLINE_MS = 10_000;
/** Deadline of a message where the caller names none: a lost workflow task is repeated after 10 s (docs/adr/0067). */
const MESSAGE_DEADLINE_MS = 20_000;
/** A hundred years. For some longer times gRPC throws outside of every promise, which ends the process. */
const LONGEST_MS = 3_153_600_000_000;
/** Time after which an execution that took no more updates is asked again: it continues as new meanwhile. */
const FULL_PAUSE_MS = 500;

export class Engine {
  readonly client: Client;
  readonly deadlineMs: number;
  readonly #messageDeadlineMs: number;
  readonly #lanes = new Lanes();

  /** @param deadlineMs of every call and message; without it, each has its own default */
  constructor(client: Client, deadlineMs?: number) {
    this.client = client;
    this.deadlineMs = deadlineMs ?? DEADLINE_MS;
    this.#messageDeadlineMs = deadlineMs ?? MESSAGE_DEADLINE_MS;
  }

  get namespace(): string {
    return this.client.options.namespace;
  }

  /**
   * Sends one update, and again if Temporal lost it: the id inside the message lets it count once.
   * @param updateId comes from `updateIdOf`
   * @param message the answer must repeat its ids
   */
  async update<T>(
    about: Subject,
    updateId: string | undefined,
    send: (id: { readonly updateId?: string }) => Promise<T>,
    message: object = {},
  ): Promise<T> {
    const own = defined({ updateId });
    const attempt = async (id: typeof own): Promise<T> => await this.#inTurn(about, () => send(id));
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

  /** The deadline includes the wait for the turn. */
  async #inTurn<T>(about: Subject, act: () => Promise<T>): Promise<T> {
    const end = Date.now() + this.#messageDeadlineMs;
    return await this.#lanes.run(workflowIdOf(about), async () => {
      for (;;) {
        try {
          return await this.call(about, act, Math.max(1, end - Date.now()));
        } catch (error) {
          const isFull = error instanceof CountersignError && takesNoUpdates(error.cause);
          // The next attempt needs some time of its own.
          if (!isFull || Date.now() + 2 * FULL_PAUSE_MS >= end) throw error;
        }
        await pause(FULL_PAUSE_MS);
      }
    });
  }

  /** Reads: no error leaves the result uncertain. A query that the worker refused (docs/adr/0044) is asked again. */
  async read<T>(about: Subject, act: () => Promise<T>, deadlineMs = this.deadlineMs): Promise<T> {
    const end = Date.now() + deadlineMs;
    try {
      return await untilAnswered(
        async () => await this.call(about, act, Math.max(1, end - Date.now())),
        pause,
        () => end - Date.now(),
      );
    } catch (error) {
      if (!isRefusedQuery(error) && !(error instanceof CountersignError && error.code === 'RESULT_UNCERTAIN'))
        throw error;
      const { title, facts } = namingOf(about);
      const message = isRefusedQuery(error)
        ? `${title} was not read: it was between two workflow tasks each time. Nothing is wrong; try again.`
        : `${title} was not read in time. Is a worker running? Start one with the configuration of the other workers (countersign worker --config FILE) and try again.`;
      throw new CountersignError('ENGINE_UNAVAILABLE', message, facts, { cause: error });
    }
  }

  /** Asks a worker. If no worker polls the run's queue, the error says so after a moment. @throws CountersignError */
  async query<T>(about: Subject, act: () => Promise<T>, deadlineMs = this.deadlineMs): Promise<T> {
    const over = new AbortController();
    let found: Promise<CountersignError | undefined> | undefined;
    const look = async (): Promise<CountersignError | undefined> => await (found ??= unserved(this.client, about));
    const asked = this.read(about, act, deadlineMs);
    const looked = async (): Promise<T> => {
      await pause(Math.min(LOOK_AFTER_MS, deadlineMs), undefined, { signal: over.signal });
      const trouble = await look();
      if (trouble === undefined) return await asked;
      throw trouble;
    };
    try {
      return await Promise.race([asked, looked()]);
    } catch (error) {
      const isSilent = error instanceof CountersignError && SILENCE.includes(error.code);
      throw (isSilent ? await look() : undefined) ?? error;
    } finally {
      over.abort();
    }
  }

  /** Lists the executions that a query matches, newest first. Each page has a deadline of its own. */
  async *list(query: string): AsyncGenerator<WorkflowExecutionInfo> {
    const pages = listExecutions(this.client, query)[Symbol.asyncIterator]();
    for (;;) {
      const next = await this.call('', () => pages.next());
      if (next.done === true) return;
      yield next.value;
    }
  }

  /** @throws CountersignError */
  async call<T>(about: Subject, act: () => Promise<T>, deadlineMs = this.deadlineMs): Promise<T> {
    const mostMs = patienceOf(deadlineMs);
    try {
      return await this.client.connection.withDeadline(Date.now() + mostMs, act);
    } catch (error) {
      throw troubleOf(error, about);
    }
  }
}

/**
 * Returns a deadline that Temporal's client can keep: a longer one is as good as none.
 * @throws CountersignError `USAGE` for one that is no number, such as `Number(undefined)`
 */
export function patienceOf(deadlineMs: number): number {
  const mostMs = Math.min(deadlineMs, LONGEST_MS);
  if (!Number.isNaN(mostMs)) return mostMs;
  const message = 'deadlineMs is not a number. Give a number of milliseconds, or leave it out; nothing was sent.';
  throw new CountersignError('USAGE', message);
}

/** A caller without types may give anything. @throws CountersignError `USAGE` */
export function assertFields(given: unknown, method: string, wanted: string): void {
  if (isFields(given)) return;
  throw new CountersignError('USAGE', `The argument of ${method} is not an object. Give ${wanted}.`);
}

/** Fields that an answer repeats from its message, if the message has them. */
const REPEATED = ['decisionId', 'callId', 'standing', 'requestId'];

function repeats(answer: unknown, message: object): boolean {
  const said = Object.entries(message).filter(([name]) => REPEATED.includes(name));
  if (said.length === 0) return true;
  return isFields(answer) && said.every(([name, value]) => answer[name] === value);
}

const HASH_CHARACTERS = 16;

/**
 * Makes the update id. It covers the content: Temporal answers a known id without asking the workflow, and another
 * message under the same decision id must be judged. docs/guide/starting-from-any-language.md has the rule for other
 * languages.
 * @param message without its signature, so that a message signed anew keeps its id
 * @param id the message's own id, if it has one
 */
export function updateIdOf(update: string, message: object, id?: string): string {
  return [update, ...(id === undefined ? [] : [id]), hashOf(message).slice(0, HASH_CHARACTERS)].join('/');
}

/** True if the update was accepted in the task in which the workflow continued as new (Temporal #6375). */
function isLostAtRollover(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1) {
    if ('type' in at && at.type === 'AcceptedUpdateCompletedWorkflow') return true;
  }
  return false;
}

/** True for an update that was refused after a reset: its id never gets an answer (Temporal server 1.29.1). */
function isStuckUpdate(error: unknown): boolean {
  const cause = error instanceof Error && error.cause instanceof ServiceError ? error.cause.cause : undefined;
  return isGrpcServiceError(cause) && cause.code === grpcStatus.INTERNAL;
}

/** True for a trouble that may have passed, but that Temporal would repeat under this id for ever. */
function isRecordedTrouble(error: unknown): boolean {
  if (!(error instanceof CountersignError)) return false;
  // A client reports Temporal's own outages with the same code; in that case nothing is recorded.
  return (
    PASSING.has(error.code) || (error.code === 'ENGINE_UNAVAILABLE' && error.cause instanceof WorkflowUpdateFailedError)
  );
}

const PASSING: ReadonlySet<ErrorCode> = new Set(['CATALOG_UNAVAILABLE', 'JUDGE_UNAVAILABLE', 'TRUST_UNAVAILABLE']);

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** Temporal would not say of a larger message what is wrong. @throws CountersignError `LIMIT_REACHED` */
export function assertMessageFits(message: unknown, what = 'message', advice = 'Nothing was sent.'): void {
  const bytes = byteLength(JSON.stringify(message ?? null));
  if (bytes <= MESSAGE_BYTES) return;
  const reason = `The ${what} has ${bytes} bytes; ${MESSAGE_BYTES} are allowed. ${advice}`;
  throw new CountersignError('LIMIT_REACHED', reason, { limit: 'message' });
}

export class Lanes {
  readonly #lanes = new Map<string, { underWay: number; readonly waiting: (() => void)[] }>();
  readonly #most: number;

  constructor(most = MOST_UNDER_WAY) {
    this.#most = most;
  }

  async run<T>(name: string, act: () => Promise<T>): Promise<T> {
    const lane = this.#lanes.get(name) ?? { underWay: 0, waiting: [] };
    this.#lanes.set(name, lane);
    if (lane.underWay < this.#most) lane.underWay += 1;
    else await new Promise<void>((resolve) => void lane.waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = lane.waiting.shift();
      // The caller that has waited longest takes over the place.
      if (next === undefined) lane.underWay -= 1;
      else next();
      if (lane.underWay === 0) this.#lanes.delete(name);
    }
  }
}

/** Updates of one run in flight at once. Temporal takes ten of all senders together (`history.maxInFlightUpdates`). */
const MOST_UNDER_WAY = 4;

/** Asks a run or catalog, and again where a worker has lost the query (docs/adr/0063). The deadline is the caller's. */
export async function askWorkflow<T>(
  workflow: Pick<WorkflowHandle, 'query'>,
  name: string,
  ...args: readonly (string | number)[]
): Promise<T> {
  return await askedAgain(
    async () => await workflow.query<T, unknown[]>(name, ...askedAt(args, Date.now())),
    async (ms) => await pause(ms, undefined, { ref: false }),
  );
}

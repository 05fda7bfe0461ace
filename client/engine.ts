/** The client's way to Temporal: every call has a deadline, every failure a code. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import { isRefusedQuery, untilAnswered } from '../contracts/refused-query.ts';
import { Lanes } from './lanes.ts';
import { unserved } from './pollers.ts';
import { namingOf, type Subject, workflowIdOf } from './subject.ts';
import { troubleOf } from './trouble.ts';

/** A worker that is there answers in a fraction of this, save under load. */
const LOOK_AFTER_MS = 2_000;
/** What is said where nobody answers. */
const SILENCE: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RUN_STUCK'];

export class Engine {
  readonly client: Client;
  readonly deadlineMs: number;
  readonly #lanes = new Lanes();

  constructor(client: Client, deadlineMs: number) {
    this.client = client;
    this.deadlineMs = deadlineMs;
  }

  get namespace(): string {
    return this.client.options.namespace;
  }

  /** An update: waits for its turn, within its deadline. @throws CountersignError */
  async update<T>(about: Subject, act: () => Promise<T>): Promise<T> {
    const end = Date.now() + this.deadlineMs;
    return await this.#lanes.run(
      workflowIdOf(about),
      async () => await this.call(about, act, Math.max(1, end - Date.now())),
    );
  }

  /**
   * What only reads may be asked again, whatever became of it; a query that its worker refused (docs/adr/0044) is, here.
   * @throws CountersignError
   */
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
        : `${title} was not read in time. Is a worker running? Start one (countersign worker) and try again.`;
      throw new CountersignError('ENGINE_UNAVAILABLE', message, facts, { cause: error });
    }
  }

  /** What a worker answers: where none polls the queue of the run, that is said after a moment. @throws CountersignError */
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

  /** @throws CountersignError */
  async call<T>(about: Subject, act: () => Promise<T>, deadlineMs = this.deadlineMs): Promise<T> {
    try {
      return await this.client.connection.withDeadline(Date.now() + deadlineMs, act);
    } catch (error) {
      throw troubleOf(error, about);
    }
  }
}

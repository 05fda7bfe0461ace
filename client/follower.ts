/** Follows the history of one execution by long polls, only to know when to look again and when it is over. */
import { isGrpcDeadlineError } from '@temporalio/client';
import type { Engine } from './engine.ts';
import type { PatientReader } from './patient-reader.ts';

/** One long poll; the server answers empty after about 20 s. */
const POLL_MS = 60_000;

export class Follower {
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

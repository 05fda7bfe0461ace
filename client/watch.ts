/**
 * The events of a run as they happen: ledger entries, in order, each once, across continue-as-new.
 *
 * 1. Temporal's history long poll only wakes; what is told comes from the ledger, from the cursor on.
 */
import type { Client } from '@temporalio/client';
import { QUERIES } from '../contracts/names.ts';
import type { LedgerEntry } from '../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../contracts/schemas/run-state.ts';
import { troubleOf } from './trouble.ts';

export interface WatchOptions {
  /** Number of the first entry wanted. */
  readonly cursor?: number;
  readonly signal?: AbortSignal;
}

/** One long poll; the server answers empty after about 20 s. */
const POLL_MS = 60_000;

export async function* watchRun(
  client: Client,
  workflowId: string,
  { cursor = 0, signal }: WatchOptions,
): AsyncGenerator<LedgerEntry> {
  let next = cursor;
  try {
    let runId: string | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
    while (runId !== undefined) {
      const follower: Follower = new Follower(client, workflowId, runId);
      for (;;) {
        const ended: boolean = follower.ended;
        for (const entry of await entriesFrom(client, workflowId, runId, next)) {
          yield entry;
          next = entry.seq + 1;
        }
        if (ended || signal?.aborted === true) break;
        await follower.wait(signal);
      }
      if (signal?.aborted === true) return;
      runId = follower.continuedIn;
    }
  } catch (error) {
    if (signal?.aborted === true) return;
    throw troubleOf(error, workflowId);
  }
}

async function entriesFrom(
  client: Client,
  workflowId: string,
  runId: string,
  from: number,
): Promise<readonly LedgerEntry[]> {
  const page = await client.workflow
    .getHandle(workflowId, runId)
    .query<LedgerPage, [number, number]>(QUERIES.ledger, from, Number.MAX_SAFE_INTEGER);
  return page.entries.filter(({ seq }) => seq >= from);
}

/** Follows the history of one execution, only to know when to look again and when it is over. */
class Follower {
  ended = false;
  continuedIn: string | undefined;
  readonly #client: Client;
  readonly #execution: { readonly workflowId: string; readonly runId: string };
  #token: Uint8Array | undefined;

  constructor(client: Client, workflowId: string, runId: string) {
    this.#client = client;
    this.#execution = { workflowId, runId };
  }

  /** Returns when something has happened in the run, or the server ended the poll. */
  async wait(signal: AbortSignal | undefined): Promise<void> {
    const { connection, options } = this.#client;
    const poll = () =>
      connection.withDeadline(Date.now() + POLL_MS, () =>
        connection.workflowService.getWorkflowExecutionHistory({
          namespace: options.namespace,
          execution: this.#execution,
          waitNewEvent: true,
          ...(this.#token === undefined ? {} : { nextPageToken: this.#token }),
        }),
      );
    // A signal of its own for each poll: the connection never takes its listener off the one it is given.
    const page = await (signal === undefined ? poll() : connection.withAbortSignal(AbortSignal.any([signal]), poll));
    this.#token = page.nextPageToken;
    for (const event of page.history?.events ?? []) {
      const continued = event.workflowExecutionContinuedAsNewEventAttributes;
      if (continued !== null && continued !== undefined) this.continuedIn = continued.newExecutionRunId ?? undefined;
    }
    // The server gives no token once the execution is closed.
    if (page.nextPageToken === null || page.nextPageToken === undefined || page.nextPageToken.length === 0)
      this.ended = true;
  }
}

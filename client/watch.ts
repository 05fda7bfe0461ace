/**
 * The events of a run as they happen: ledger entries, in order, each once, across continue-as-new.
 *
 * 1. Temporal's history long poll only wakes; what is told comes from the ledger, from the cursor on.
 * 2. What the followed execution does not hold comes from stored segments, or the watch fails: no entry is left out.
 */
import { CountersignError } from '../contracts/errors.ts';
import { QUERIES } from '../contracts/names.ts';
import type { LedgerEntry } from '../contracts/schemas/ledger.ts';
import type { RunState } from '../contracts/schemas/run-state.ts';
import type { RunningTask } from '../contracts/schemas/server-task.ts';
import { type CallProgress, readProgress, tellingOnce, tellWhile } from './call-progress.ts';
import type { Engine } from './engine.ts';
import { Follower } from './follower.ts';
import { type ArtifactReader, entriesFrom, ledgerPage } from './ledger.ts';
import { type Retry, tellingRetriesOnce } from './retries.ts';
import { type Patience, PatientReader, TimeIsUp } from './patient-reader.ts';

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

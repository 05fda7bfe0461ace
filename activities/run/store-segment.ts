/**
 * This activity puts a closed stretch of transcript and ledger into the artifact store, and its ledger into every sink
 * of the ledger port. The store is content-addressed and sinks know what they have, so repeating it is harmless.
 *
 * 1. It stores what the run that scheduled it answers to queries, whole and with its chain intact, or nothing.
 * 2. When it returns, store and sinks have all of it: a run continues as new or ends only then (INV-D3).
 */
import { heartbeat } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import type { StoreSegmentInput, Stretch } from '../../contracts/wire/run.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, QUERIES, RUN_WORKFLOW } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { LedgerEntry, Segment } from '../../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../../contracts/schemas/run-state.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { verifyChain } from '../../domain/run/journal.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { DeliverLedger } from '../ledger/port.ts';
import { currentScheduler, type Scheduler } from '../kit/activity.ts';
import { type ExecutionId, executionOf } from './executions.ts';
import { pageOf, readSegment } from './read-transcript.ts';

const SEGMENT_TYPE = 'application/vnd.countersign.segment+json';

export function createStoreSegment(
  artifacts: ArtifactStore,
  client: Pick<Client, 'workflow' | 'workflowService'>,
  deliver?: DeliverLedger,
): (input: StoreSegmentInput) => Promise<ArtifactRef> {
  return async ({ workflowId, previous, transcript, ledger }) => {
    // After a reset, the scheduling run is not the one that wrote the input; its ledger is the one to keep.
    const scheduler = currentScheduler();
    const { runId } = scheduler;
    const run = client.workflow.getHandle(workflowId, runId);
    const messages = await whole(transcript, async (from, to) => (await pageOf(run, from, to)).messages);
    const entries = await whole(
      ledger,
      async (from, to) => (await run.query<LedgerPage, [number, number]>(QUERIES.ledger, from, to)).entries,
    );
    assertChained(entries, ledger.from, workflowId);
    const segment: Segment = {
      workflowId,
      ...defined({ previous }),
      transcript: { from: transcript.from, messages },
      ledger: { from: ledger.from, entries },
    };
    const ref = await artifacts.put(new TextEncoder().encode(canonicalJson(segment)), SEGMENT_TYPE);
    if (deliver !== undefined) {
      const stream = await executionOf(client, ownLedger(scheduler, workflowId));
      await deliverOn(async (stretch) => await deliver(stream, stretch), entries, artifacts, previous);
    }
    return ref;
  };
}

/** Returns the execution whose ledger is signed: only that of the run or catalog that asks, never another one. */
function ownLedger({ namespace, workflowType, workflowId, runId }: Scheduler, asked: string): ExecutionId {
  const isOurs = workflowType === RUN_WORKFLOW || workflowType === CATALOG_WORKFLOW;
  if (isOurs && workflowId === asked) return { namespace, workflowId, runId };
  throw new CountersignError('DISPATCH_FORBIDDEN', `${asked} did not schedule this: its ledger was not signed.`);
}

/** Delivers to a sink what it misses first: it may have been added later, or restored from an old backup. */
async function deliverOn(
  deliver: (entries: readonly LedgerEntry[]) => Promise<void>,
  entries: readonly LedgerEntry[],
  artifacts: ArtifactStore,
  previous: ArtifactRef | undefined,
): Promise<void> {
  try {
    await deliver(entries);
  } catch (error) {
    if (previous === undefined || !(error instanceof CountersignError) || error.code !== 'LEDGER_CONFLICT') throw error;
    // If the error has another cause than a gap, one of these deliveries is refused in the same way.
    const segment = await readSegment(artifacts, previous);
    await deliverOn(deliver, segment.ledger.entries, artifacts, segment.previous);
    heartbeat(segment.ledger.from);
    await deliver(entries);
  }
}

/** Reads page by page; an empty page is an error, since the loop would never end. */
async function whole<T>(
  { from, to }: Stretch,
  read: (from: number, to: number) => Promise<readonly T[]>,
): Promise<T[]> {
  const items: T[] = [];
  while (from + items.length < to) {
    const page = await read(from + items.length, to);
    if (page.length === 0) {
      const message = `The run answers nothing from ${from + items.length}, and is to be stored up to ${to}.`;
      throw new CountersignError('ARTIFACT_MISSING', message);
    }
    for (const item of page) items.push(item);
    heartbeat(items.length);
  }
  return items;
}

function assertChained(entries: readonly LedgerEntry[], from: number, workflowId: string): void {
  const check = verifyChain(entries, from, entries[0]?.prev);
  if (check.kind === 'intact') return;
  const message = `Entry ${check.seq} of the ledger of ${workflowId} ${check.reason}; it was not stored.`;
  throw new CountersignError('LEDGER_BROKEN', message, { runId: workflowId, seq: check.seq });
}

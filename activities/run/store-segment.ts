/**
 * Puts a closed stretch of transcript and ledger into the artifact store. Content-addressed, so repeating it is harmless.
 *
 * 1. What is stored is what the run that scheduled this answers to queries, whole and with its chain intact, or nothing.
 */
import { activityInfo, heartbeat } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { StoreSegmentInput, Stretch } from '../../contracts/activities.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { LedgerEntry, Segment } from '../../contracts/schemas/ledger.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { verifyChain } from '../../domain/ledger.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

export const SEGMENT_TYPE = 'application/vnd.countersign.segment+json';

export function createStoreSegment(
  artifacts: ArtifactStore,
  client: Pick<Client, 'workflow'>,
): (input: StoreSegmentInput) => Promise<ArtifactRef> {
  return async ({ workflowId, previous, transcript, ledger }) => {
    // After a reset that is not the run that the input was written by, and its ledger is the one to keep.
    const run = client.workflow.getHandle(workflowId, activityInfo().workflowExecution?.runId);
    const messages = await whole(
      transcript,
      async (from, to) => (await run.query<TranscriptPage, [number, number]>(QUERIES.transcript, from, to)).messages,
    );
    const entries = await whole(
      ledger,
      async (from, to) => (await run.query<LedgerPage, [number, number]>(QUERIES.ledger, from, to)).entries,
    );
    assertChained(entries, ledger.from, workflowId);
    const segment: Segment = {
      workflowId,
      ...(previous === undefined ? {} : { previous }),
      transcript: { from: transcript.from, messages },
      ledger: { from: ledger.from, entries },
    };
    return await artifacts.put(new TextEncoder().encode(canonicalJson(segment)), SEGMENT_TYPE);
  };
}

/** Page by page; one that brings nothing would never end. */
async function whole<T>(
  { from, to }: Stretch,
  pageOf: (from: number, to: number) => Promise<readonly T[]>,
): Promise<T[]> {
  const items: T[] = [];
  while (from + items.length < to) {
    const page = await pageOf(from + items.length, to);
    if (page.length === 0)
      throw new CountersignError(
        'ARTIFACT_MISSING',
        `The run answers nothing from ${from + items.length}, and is to be stored up to ${to}.`,
      );
    for (const item of page) items.push(item);
    heartbeat(items.length);
  }
  return items;
}

function assertChained(entries: readonly LedgerEntry[], from: number, workflowId: string): void {
  const check = verifyChain(entries, from, entries[0]?.prev);
  if (check.kind === 'intact') return;
  throw new CountersignError(
    'LEDGER_BROKEN',
    `Entry ${check.seq} of the ledger of ${workflowId} ${check.reason}; it was not stored.`,
    { runId: workflowId, seq: check.seq },
  );
}

/** Stores the journal of an execution, and finds the moment at which it may continue as new. */
import { allHandlersFinished, condition, sleep, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { answered } from './unread.ts';
import type { Entity } from './entity.ts';
import { storeActivities } from './activities.ts';

/**
 * Waits until every handler has finished, and then for a new workflow task: no message is answered in the task that
 * ends an execution (temporalio/temporal#6375).
 */
export async function untilAnswered(): Promise<void> {
  await condition(allHandlersFinished);
  await sleep(1, { summary: 'before continue-as-new' });
}

/** Stores one segment. `ledgerLength` says how far it holds the ledger: more entries may have come meanwhile. */
export async function storeOnce(
  live: Entity,
  { storeSegment } = storeActivities(),
): Promise<{ segment: ArtifactRef; ledgerLength: number }> {
  const { journal } = live;
  const { ledgerLength } = journal;
  const stored = await storeSegment({
    workflowId: workflowInfo().workflowId,
    ...defined({ previous: journal.segment }),
    transcript: { from: journal.transcriptFrom, to: journal.transcriptLength },
    ledger: { from: journal.ledgerFrom, to: ledgerLength },
  });
  return { segment: answered(live, 'storeSegment', stored), ledgerLength };
}

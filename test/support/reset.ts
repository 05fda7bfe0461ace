/** An operator resets a run: it begins anew behind one of its workflow tasks, and what was sent to it after that is applied again. */
import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { History } from '../../workers/replay/recorded-history.ts';

export type HistoryEvent = NonNullable<History['events']>[number];

/** Behind the first or last workflow task that has completed, or the last one before the first such event, which is undone with all after it. */
type Place = 'first' | 'last' | ((event: HistoryEvent) => boolean);

/** @param runId of the execution; the newest where it is left out. @returns the one that the run has now */
export async function resetRun(
  client: Client,
  { workflowId, runId: given }: { readonly workflowId: string; readonly runId?: string },
  to: Place = 'last',
): Promise<string> {
  const handle = client.workflow.getHandle(workflowId, given);
  const runId = given ?? (await handle.describe()).runId;
  const events = (await client.workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];
  const upTo = typeof to === 'function' ? events.findIndex(to) : events.length;
  if (upTo === -1) throw new Error('nothing to undo');
  const completed = events.slice(0, upTo).filter(({ workflowTaskCompletedEventAttributes: done }) => done);
  const task = to === 'first' ? completed[0] : completed.at(-1);
  if (!task?.eventId) throw new Error('no workflow task to reset to');
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: task.eventId,
  });
  return answer.runId;
}

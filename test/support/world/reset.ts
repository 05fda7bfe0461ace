/**
 * Resets a run like an operator: the run begins anew behind one of its workflow tasks, and later messages are
 * applied again.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { History } from '../../../workers/replay/recorded-history.ts';

export type HistoryEvent = NonNullable<History['events']>[number];

/** Resets behind the first or last completed workflow task, or behind the last one before the first matching event. */
type Place = 'first' | 'last' | ((event: HistoryEvent) => boolean);

/** Temporal does not apply updates again (temporal.api.enums.v1.ResetReapplyExcludeType). */
export const WITHOUT_UPDATES = 2;

/**
 * @param runId id of the execution; default: the newest
 * @param without what Temporal does not apply again
 * @returns the Temporal run id after the reset
 */
export async function resetRun(
  client: Client,
  { workflowId, runId: given }: { readonly workflowId: string; readonly runId?: string },
  to: Place = 'last',
  without: readonly (typeof WITHOUT_UPDATES)[] = [],
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
    resetReapplyExcludeTypes: [...without],
  });
  return answer.runId;
}

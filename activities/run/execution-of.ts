/** Which execution of which chain an activity belongs to, as Temporal itself has recorded it. */
import type { Client } from '@temporalio/client';
import type { LedgerStream } from '../ledger/delivery.ts';

export interface ExecutionId {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
}

/** Asks for the first event of the execution, which is never changed. */
export async function executionOf(
  client: Pick<Client, 'workflowService'>,
  { namespace, workflowId, runId }: ExecutionId,
): Promise<LedgerStream> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace,
    execution: { workflowId, runId },
    maximumPageSize: 1,
  });
  const started = history?.events?.[0]?.workflowExecutionStartedEventAttributes;
  const firstRunId = started?.firstExecutionRunId ?? '';
  const originalRunId = started?.originalExecutionRunId ?? '';
  if (firstRunId === '' || originalRunId === '')
    throw new Error(`the history of ${workflowId} does not begin with its start`);
  // After a reset the first event is that of the run that was reset.
  return { namespace, workflowId, firstRunId, runId, ...(originalRunId === runId ? {} : { resetOf: originalRunId }) };
}

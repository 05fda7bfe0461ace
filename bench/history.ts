/** Size of a recorded history, as a whole and turn by turn. */
import protos from '@temporalio/proto';
import type { Client } from '@temporalio/client';

const { HistoryEvent } = protos.temporal.api.history.v1;

export interface HistorySize {
  readonly events: number;
  readonly bytes: number;
  /** Bytes from one model step to the next. */
  readonly bytesPerTurn: readonly number[];
}

/** All executions of a run, first to last. @param modelActivity starts a turn */
export async function historySize(client: Client, workflowId: string, modelActivity: string): Promise<HistorySize> {
  const sizes: HistorySize[] = [];
  let runId: string | undefined;
  const newest = await client.workflow.getHandle(workflowId).describe();
  for (
    let next: string | undefined = await firstRunId(client, workflowId, newest.runId);
    next !== undefined;
    next = runId
  ) {
    const history = await client.workflow.getHandle(workflowId, next).fetchHistory();
    runId = undefined;
    const turns: number[] = [];
    let bytes = 0;
    for (const event of history.events ?? []) {
      const size = HistoryEvent.encode(HistoryEvent.create(event)).finish().length;
      bytes += size;
      if (event.activityTaskScheduledEventAttributes?.activityType?.name === modelActivity) turns.push(0);
      if (turns.length > 0) turns[turns.length - 1] = (turns.at(-1) ?? 0) + size;
      runId = event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? runId;
    }
    sizes.push({ events: history.events?.length ?? 0, bytes, bytesPerTurn: turns });
  }
  return {
    events: sizes.reduce((sum, { events }) => sum + events, 0),
    bytes: sizes.reduce((sum, { bytes }) => sum + bytes, 0),
    bytesPerTurn: sizes.flatMap(({ bytesPerTurn }) => bytesPerTurn),
  };
}

async function firstRunId(client: Client, workflowId: string, newest: string): Promise<string> {
  const history = await client.workflow.getHandle(workflowId, newest).fetchHistory();
  return history.events?.[0]?.workflowExecutionStartedEventAttributes?.firstExecutionRunId ?? newest;
}

/** The executions of one workflow that continue-as-new linked, as far as Temporal retains their histories. */
import { type Client, isGrpcServiceError } from '@temporalio/client';

/** gRPC status code (grpc/grpc statuscodes.md). */
const GRPC_NOT_FOUND = 5;

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface ExecutionChain {
  /** Oldest first. */
  readonly histories: readonly History[];
  /** The first execution is among them. */
  readonly isWhole: boolean;
}

/** @throws as Temporal does where the newest execution cannot be read */
export async function executionChain(client: Client, workflowId: string): Promise<ExecutionChain> {
  const histories: History[] = [];
  let runId: string | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
  while (runId !== undefined && runId !== '') {
    let history: History;
    try {
      history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    } catch (error) {
      // The newest must be there; earlier ones are forgotten first. Whatever else went wrong, they were not looked at.
      if (histories.length === 0 || !isGrpcServiceError(error) || error.code !== GRPC_NOT_FOUND) throw error;
      return { histories, isWhole: false };
    }
    histories.unshift(history);
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return { histories, isWhole: true };
}

/**
 * Reads the executions of one workflow that continue-as-new linked, as far as Temporal retains their
 * histories.
 */
import { type Client, isGrpcServiceError } from '@temporalio/client';

/** gRPC status code (grpc/grpc statuscodes.md). */
const GRPC_NOT_FOUND = 5;

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface ExecutionChain {
  /** Histories, oldest first. */
  readonly histories: readonly History[];
  /** True if the first execution is among the histories. */
  readonly isWhole: boolean;
}

/**
 * Follows the chain back from the newest execution.
 * @throws Temporal's error if the newest execution cannot be read, or an earlier one for another reason than its
 *   retention
 */
export async function executionChain(client: Client, workflowId: string): Promise<ExecutionChain> {
  const histories: History[] = [];
  let runId: string | undefined = (await client.workflow.getHandle(workflowId).describe()).runId;
  while (runId !== undefined && runId !== '') {
    let history: History;
    try {
      history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    } catch (error) {
      // Temporal forgets the earliest executions first; the newest must exist. Any other error says nothing about
      // whether an execution exists.
      if (histories.length === 0 || !isGrpcServiceError(error) || error.code !== GRPC_NOT_FOUND) throw error;
      return { histories, isWhole: false };
    }
    histories.unshift(history);
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? undefined;
  }
  return { histories, isWhole: true };
}

/** Lists executions of a namespace through visibility. */
import { type Client, WorkflowClient, type WorkflowExecutionInfo } from '@temporalio/client';
import { payloadConverter } from '../../contracts/payload-converter.ts';

/**
 * Lists the executions that a query matches. Anybody may start an execution whose memo cannot be read.
 * Such a memo appears as `Undecodable`, so that it does not end the list of the others.
 */
export function listExecutions(client: Client, query: string): AsyncIterable<WorkflowExecutionInfo> {
  const { connection, options } = client;
  const { namespace, loadedDataConverter } = options;
  const dataConverter = { ...loadedDataConverter, payloadConverter };
  return new WorkflowClient({ connection, namespace, dataConverter }).list({ query });
}

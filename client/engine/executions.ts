/** Executions of a namespace, as visibility lists them. */
import { type Client, WorkflowClient, type WorkflowExecutionInfo } from '@temporalio/client';
import { payloadConverter } from '../../contracts/payload-converter.ts';

/** Anybody may start an execution whose memo cannot be read: it stands in the list as `Undecodable`, and ends no list of the others. */
export function listExecutions(client: Client, query: string): AsyncIterable<WorkflowExecutionInfo> {
  const { connection, options } = client;
  const { namespace, loadedDataConverter } = options;
  const dataConverter = { ...loadedDataConverter, payloadConverter };
  return new WorkflowClient({ connection, namespace, dataConverter }).list({ query });
}

/** Query of a run or catalog, asked again where a worker has lost it (docs/adr/0063). The deadline is the caller's. */
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { askedAgain } from '../../contracts/failure.ts';

export async function askWorkflow<T>(
  workflow: Pick<WorkflowHandle, 'query'>,
  name: string,
  ...args: readonly (string | number)[]
): Promise<T> {
  return await askedAgain(
    async () => await workflow.query<T, (string | number)[]>(name, ...args),
    async (ms) => await pause(ms, undefined, { ref: false }),
  );
}

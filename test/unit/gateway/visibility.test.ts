/** Reading visibility: a call that is never answered ends nothing but itself. */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { Projection } from '../../../gateway/projection/projection.ts';
import { rowOf } from '../../../gateway/projection/visibility.ts';
import { until } from '../../support/until.ts';

/** A client of a Temporal that answers once, and then never until the caller gives up. */
function silentAfter(answers: number) {
  let left = answers;
  let aborts = new AbortController().signal;
  const deadlines: number[] = [];
  const call = async () => {
    if (left > 0) {
      left -= 1;
      return { executions: [], nextPageToken: new Uint8Array() };
    }
    return await new Promise<never>((_, reject) => aborts.addEventListener('abort', () => reject(new Error('away'))));
  };
  const client = {
    options: { namespace: 'default' },
    connection: {
      withDeadline: async <T>(at: number, ask: () => Promise<T>) => {
        deadlines.push(at);
        return await ask();
      },
      withAbortSignal: async <T>(signal: AbortSignal, ask: () => Promise<T>) => {
        aborts = signal;
        return await ask();
      },
    },
    workflowService: { listWorkflowExecutions: call, describeWorkflowExecution: call },
  };
  // Sound: these are what it uses of a client.
  return { client: client as unknown as Client, deadlines };
}

test('each call has a deadline, and a gateway stops although Temporal does not answer', async () => {
  const { client, deadlines } = silentAfter(2);
  const projection = new Projection({ client, most: 100, everyMs: 1 });
  await projection.start();
  await until(() => deadlines.length === 3, { what: 'a call that is not answered' });
  await projection.stop();
  for (const at of deadlines) expect(at).toBeGreaterThan(0);
});

test('reading one run has a deadline', async () => {
  const { client, deadlines } = silentAfter(1);
  expect(await rowOf(client, 'run-1')).toBeUndefined();
  expect(deadlines).toHaveLength(1);
});

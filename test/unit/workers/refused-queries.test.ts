/** What a worker process makes of refused queries: they are counted, and its own are asked again. */
import { expect, test } from '@jest/globals';
import type { WorkflowQueryInput } from '@temporalio/client';
import type { Runtime } from '@temporalio/worker';
import type { WorkflowInfo } from '@temporalio/workflow';
import { isRefusedQuery, REFUSED_QUERY, whenAsked } from '../../../contracts/failure.ts';
import { askingAgain, countRefused } from '../../../workers/connection.ts';

// Sound: the arguments are all that is read of it.
const INPUT = { queryType: 'transcript', args: [0, 9] } as unknown as WorkflowQueryInput;

async function rejecting(error: Error): Promise<never> {
  throw error;
}

test('each is counted, by workflow', async () => {
  const counted: unknown[] = [];
  const metricMeter = {
    createCounter: (name: string) => ({ add: (...more: unknown[]) => counted.push([name, ...more]) }),
  };
  // Sound: a counter is all that is made of it.
  const { queryGuard } = countRefused({ metricMeter } as unknown as Pick<Runtime, 'metricMeter'>);
  // Sound: the type is all that is read of it.
  await queryGuard.refused.fn({ workflowType: 'agentRun' } as WorkflowInfo);
  expect(counted).toEqual([['countersign_queries_refused', 1, { workflow: 'agentRun' }]]);
  // In a query that is answered live, not while history is replayed.
  expect(queryGuard.refused.callDuringReplay).toBeUndefined();
});

test('a query of an activity is asked again; one that is refused each time fails as none that the run does not know', async () => {
  let asked = 0;
  const { query } = askingAgain();
  const times: (number | undefined)[] = [];
  const once = async ({ args }: Pick<WorkflowQueryInput, 'args'>): Promise<string> => {
    times.push(whenAsked(args));
    asked += 1;
    if (asked === 1) throw new Error(REFUSED_QUERY);
    return 'page';
  };
  const before = Date.now();
  expect(await query?.(INPUT, once)).toBe('page');
  // Each says when it was asked (docs/adr/0091).
  const [first = 0, second = 0] = times;
  expect(first).toBeGreaterThanOrEqual(before);
  expect(second).toBeGreaterThan(first);
  const failed = await query?.(INPUT, () => rejecting(new Error(REFUSED_QUERY))).catch((error: unknown) => error);
  expect(failed).toMatchObject({ message: expect.stringContaining('was not read'), name: 'Error' });
  expect(isRefusedQuery(failed)).toBe(true);
  await expect(query?.(INPUT, () => rejecting(new Error('away')))).rejects.toThrow('away');
});

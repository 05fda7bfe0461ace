/** How much a worker takes on follows the memory that its process may use; what is configured wins. */
import { describe, expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { memoryOf, sizesFor } from '../../../workers/memory.ts';

const GIB = 1_073_741_824;

describe('the memory that a process may use', () => {
  test('is what the configuration says', () => expect(memoryOf({ memoryMiB: 512 }, GIB, 8 * GIB)).toBe(GIB / 2));

  test('is else the limit of its control group', () => expect(memoryOf({}, 2 * GIB, 8 * GIB)).toBe(2 * GIB));

  // Version 1 of control groups says so where there is no limit; version 2 says nothing, which Node tells as 0.
  test.each([undefined, 0, 9_223_372_036_854_771_712])('is that of the machine where the limit is %s', (limit) =>
    expect(memoryOf({}, limit, 8 * GIB)).toBe(8 * GIB),
  );
});

test.each([
  [1, { maxCachedWorkflows: 78, maxConcurrentWorkflowTaskExecutions: 24, maxConcurrentActivities: 32 }],
  [2, { maxCachedWorkflows: 232, maxConcurrentWorkflowTaskExecutions: 40, maxConcurrentActivities: 96 }],
  [4, { maxCachedWorkflows: 539, maxConcurrentWorkflowTaskExecutions: 40, maxConcurrentActivities: 100 }],
  [8, { maxCachedWorkflows: 1_153, maxConcurrentWorkflowTaskExecutions: 40, maxConcurrentActivities: 100 }],
  [64, { maxCachedWorkflows: 2_000, maxConcurrentWorkflowTaskExecutions: 40, maxConcurrentActivities: 100 }],
])('%s GiB, as docs/operations/workers.md says', (gib, sizes) => expect(sizesFor(gib * GIB)).toMatchObject(sizes));

test('a process that has next to nothing still takes on something', () => {
  for (const bytes of [0, GIB / 4])
    expect(sizesFor(bytes)).toEqual({
      maxCachedWorkflows: 10,
      maxConcurrentWorkflowTaskExecutions: 4,
      maxConcurrentActivities: 10,
      workflowHeapMiB: 256,
    });
});

test('all that may be kept has room in the heap, also what was asked for by hand', () => {
  for (const gib of [1, 2, 4, 8, 16]) {
    const { maxCachedWorkflows, workflowHeapMiB } = sizesFor(gib * GIB);
    expect(workflowHeapMiB).toBeGreaterThanOrEqual(maxCachedWorkflows * 5);
    expect(workflowHeapMiB).toBeLessThan(gib * 1_024);
  }
  expect(sizesFor(GIB, { maxCachedWorkflows: 1_000 })).toMatchObject({
    maxCachedWorkflows: 1_000,
    workflowHeapMiB: 5_000,
  });
});

test('what is reckoned for the process, for runs and for activities is no more than there is', () => {
  for (const gib of [1, 1.5, 2, 4, 8, 16]) {
    const { workflowHeapMiB, maxConcurrentActivities } = sizesFor(gib * GIB);
    expect(500 + workflowHeapMiB + 4 * maxConcurrentActivities).toBeLessThanOrEqual(gib * 1_024);
  }
});

test('who keeps fewer runs has more room for each, for long conversations', () => {
  const { workflowHeapMiB } = sizesFor(2 * GIB);
  expect(sizesFor(2 * GIB, { maxCachedWorkflows: 20 })).toMatchObject({ maxCachedWorkflows: 20, workflowHeapMiB });
});

test('what is configured wins; without a cache there is no bound of it on tasks', () => {
  const { worker } = Config.parse({ worker: { maxCachedWorkflows: 0, maxConcurrentActivities: 7 } });
  expect(sizesFor(2 * GIB, worker)).toMatchObject({
    maxCachedWorkflows: 0,
    maxConcurrentWorkflowTaskExecutions: 40,
    maxConcurrentActivities: 7,
  });
  expect(sizesFor(2 * GIB, { maxCachedWorkflows: 3 })).toMatchObject({ maxConcurrentWorkflowTaskExecutions: 3 });
});

test('the queues of one process share what activities may use', () => {
  expect(sizesFor(2 * GIB, {}, 3)).toMatchObject({ maxConcurrentActivities: 32 });
  expect(sizesFor(2 * GIB, { maxConcurrentActivities: 50 }, 3)).toMatchObject({ maxConcurrentActivities: 50 });
});

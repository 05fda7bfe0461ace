/**
 * Decides, by available memory, how many runs a worker process keeps in memory and how much it does at once.
 *
 * 1. Values that the configuration sets are taken unchanged.
 * 2. Runs live in the heap of one thread of their own. Without a limit V8 lets garbage grow to 4 GB before it collects.
 *    The limit holds all runs that may be kept, each of the largest size that was measured: that of 20 open requests.
 * 3. The sizes never fall below what one run at a time needs: a machine that is too small is slow, but does not stop.
 */
import { totalmem } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import type { Config } from '../contracts/schemas/config.ts';

const MIB = 1_048_576;

/** The process before its first run, bundle and native part included: bench/memory.ts measures 400 to 500. */
const BASE_MIB = 500;
/** A kept run with 20 requests open: bench/memory.ts measures 3.8; the rest is garbage that comes with each task. */
const RUN_MIB = 5;
/** An activity under way: an answer of a few MiB as bytes, text and values. The largest (32 MiB) are rare. */
const ACTIVITY_MIB = 4;
/** A run that starts or is replayed makes garbage several times its size. */
const TASK_MIB = 16;
/** Room for one run at a time, the bundle, and the SDK's own data. */
const LEAST_HEAP_MIB = 256;
/** More runs than one thread serves well, and more activities than a processor or two can do at once. */
const MOST_RUNS = 2_000;
const MOST_ACTIVITIES = 100;
const MOST_TASKS = 40;

type SetByHand = Pick<Config['worker'], 'maxCachedWorkflows' | 'maxConcurrentActivities'>;

export type Sizes = ReturnType<typeof sizesFor>;

/** Returns bytes: of the configuration, of the control group of the process, or of the machine. */
export function memoryOf(
  { memoryMiB }: Pick<Config['worker'], 'memoryMiB'>,
  constrained: number | undefined = process.constrainedMemory(),
  total: number = totalmem(),
): number {
  if (memoryMiB !== undefined) return memoryMiB * MIB;
  // A value of 0, or above the machine's memory, means that no limit is set.
  return constrained === undefined || constrained <= 0 ? total : Math.min(constrained, total);
}

/** @param queues that share what activities may use, each with a worker of its own */
export function sizesFor(bytes: number, given: SetByHand = {}, queues = 1) {
  const free = Math.max(0, bytes / MIB - BASE_MIB);
  // A quarter is for the input and output of activities, the rest for runs.
  const forRuns = free * 0.75;
  const forActivities = free - forRuns;
  const maxCachedWorkflows = given.maxCachedWorkflows ?? within(forRuns / RUN_MIB, 10, MOST_RUNS);
  const tasks = within(forRuns / TASK_MIB, 4, MOST_TASKS);
  return {
    maxCachedWorkflows,
    // Temporal's SDK runs no more tasks than cached runs, and no fewer than two; without a cache as many as it likes.
    maxConcurrentWorkflowTaskExecutions:
      maxCachedWorkflows === 0 ? tasks : Math.max(2, Math.min(tasks, maxCachedWorkflows)),
    maxConcurrentActivities:
      given.maxConcurrentActivities ?? within(forActivities / ACTIVITY_MIB / queues, 10, MOST_ACTIVITIES),
    // Runs that were configured get their room, whatever the machine has; fewer runs have more room each.
    workflowHeapMiB: Math.max(
      LEAST_HEAP_MIB,
      Math.floor(Math.min(forRuns, MOST_RUNS * RUN_MIB)),
      maxCachedWorkflows * RUN_MIB,
    ),
  };
}

function within(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, Math.floor(value)));
}

/** Limits heaps that are made from now on. A limit in the options of Node takes precedence. */
export function limitHeap(mib: number, options = [...process.execArgv, process.env['NODE_OPTIONS'] ?? '']): void {
  if (!options.some((option) => option.includes('max-old-space-size') || option.includes('max_old_space_size')))
    setFlagsFromString(`--max-old-space-size=${mib}`);
}

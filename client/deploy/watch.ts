/**
 * Looks how the runs of one build do, so that a deploy ends before many meet its fault (docs/operations/pipeline.md).
 *
 * 1. A run is stuck if its workflow task was handed to the build and fails again and again. Nothing of it is lost.
 * 2. Each run is looked at, the newest first: older servers do not mark those that are stuck.
 * 3. A look to which Temporal does not answer is repeated; only the last one must not fail.
 * 4. A run that has done no task belongs to no build in visibility; its execution says where it goes.
 * 5. A build without a worker is not well, whatever its runs do: they do nothing.
 * 6. A watch that was interrupted says so: it has not shown that the build does well.
 * 7. What ended before it is told apart by Temporal's own times: a clock that is ahead would hide what fails.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW, TICKET_WORKFLOW } from '../../contracts/names.ts';
import type { Engine } from '../engine/engine.ts';
import { each, standingOf } from './moves.ts';
import { buildOf, counted, readDeployment, unservedQueue, versionIs } from './versions.ts';

export interface WatchOptions {
  /** Default ten minutes. */
  readonly forMs?: number;
  /** Runs that may be stuck or fail. Default 0. */
  readonly maxFailed?: number;
  readonly tell?: (seen: Watched) => void;
  readonly signal?: AbortSignal;
}

export interface Watched {
  readonly deployment: string;
  readonly build: string;
  /** False if more runs were stuck or failed than may be, or nobody serves the build; the watch ends with that. */
  readonly isWell: boolean;
  readonly open: number;
  /** Runs that have ended with the build since the watch began; `failed` ones among them. */
  readonly ended: number;
  readonly failed: number;
  /** Runs whose workflow tasks fail, and how often in a row. */
  readonly stuck: readonly { readonly workflowId: string; readonly attempts: number }[];
  /** A task queue of the build from which no worker of it takes runs any more. */
  readonly unserved?: string;
  /** How long it was looked at, and how long it was to be. */
  readonly watchedMs: number;
  readonly forMs: number;
  /** Set if `signal` ended the watch: what it has not seen may be bad. */
  readonly interrupted?: true;
}

const EVERY_MS = 2_000;
const AT_ONCE = 8;
/** Runs of each kind that each look is at. */
const MOST_LOOKED_AT = 1_000;
/** One task may fail for a worker that ended in the middle of it, and not for its code. */
const STUCK_ATTEMPTS = 3;

/** @throws CountersignError `BUILD_UNKNOWN`, `DEPLOYMENT_UNKNOWN` */
export async function watch(
  engine: Engine,
  deployment: string,
  build: string,
  { forMs = 600_000, maxFailed = 0, tell, signal }: WatchOptions = {},
): Promise<Watched> {
  buildOf(await readDeployment(engine, deployment), build);
  const since = await sinceNow(engine, deployment, build);
  const began = Date.now();
  const end = began + forMs;
  const count = async (also: string) => await counted(engine, `${versionIs(deployment, build)} AND ${also}`);
  const look = async (): Promise<Watched> => {
    const stuck = await stuckOn(engine, deployment, build);
    const unserved = await unservedQueue(engine, deployment, build, build);
    // A digest fails with its channel, which is no fault of a build.
    const failed = await count(
      `${since} AND ExecutionStatus IN ('Failed', 'TimedOut') AND WorkflowType != '${DIGEST_WORKFLOW}'`,
    );
    return {
      deployment,
      build,
      isWell: stuck.length + failed <= maxFailed && unserved === undefined,
      open: await count(`ExecutionStatus = 'Running'`),
      ended: await count(`${since} AND ExecutionStatus != 'ContinuedAsNew'`),
      failed,
      stuck,
      ...defined({ unserved }),
      watchedMs: Date.now() - began,
      forMs,
    };
  };
  for (;;) {
    const seen = await look().catch((error: unknown) => {
      const isAway = error instanceof CountersignError && error.code === 'ENGINE_UNAVAILABLE';
      if (isAway && Date.now() < end && signal?.aborted !== true) return undefined;
      throw error;
    });
    if (seen !== undefined) tell?.(seen);
    const rest = end - Date.now();
    if (seen !== undefined && (!seen.isWell || rest <= 0)) return seen;
    if (seen !== undefined && signal?.aborted === true) return { ...seen, interrupted: true };
    await pause(Math.max(1, Math.min(EVERY_MS, rest)), undefined, defined({ signal })).catch(() => undefined);
  }
}

/** Returns what finds those that end after the last one that has ended with the build. */
async function sinceNow(engine: Engine, deployment: string, build: string): Promise<string> {
  const { client, namespace } = engine;
  const hasEnded = `ExecutionStatus != 'Running'`;
  const query = `${hasEnded} AND ${versionIs(deployment, build)}`;
  // Temporal lists first what ended last.
  const { executions } = await engine.call('', () =>
    client.connection.workflowService.listWorkflowExecutions({ namespace, query, pageSize: 1 }),
  );
  const last = executions[0]?.closeTime;
  // A time that is cut to its millisecond is before the time itself.
  return last ? `CloseTime >= '${new Date(tsToMs(last) + 1).toISOString()}'` : hasEnded;
}

async function stuckOn(engine: Engine, deployment: string, build: string): Promise<Watched['stuck']> {
  const stuck = new Map<string, number>();
  for (const query of [versionIs(deployment, build), ...OF_ANY_BUILD]) {
    let looked = 0;
    await each(engine.list(`ExecutionStatus = 'Running' AND ${query}`), AT_ONCE, async (execution) => {
      looked += 1;
      const { workflowId, runId } = execution;
      const standing = await standingOf(engine, { workflowId, runId });
      const { attempts = 0, movedTo, goingTo, build: last } = standing ?? {};
      if (attempts >= STUCK_ATTEMPTS && (movedTo ?? goingTo ?? last) === build) stuck.set(workflowId, attempts);
      return looked < MOST_LOOKED_AT;
    });
  }
  return [...stuck].map(([workflowId, attempts]) => ({ workflowId, attempts }));
}

const OURS = [RUN_WORKFLOW, CATALOG_WORKFLOW, TICKET_WORKFLOW, DIGEST_WORKFLOW].map((type) => `'${type}'`).join(', ');

/** Find what any build may be given: what has done no task, and what goes to the current build with each. */
const OF_ANY_BUILD = ['IS NULL', `= 'AutoUpgrade'`].map(
  (behavior) => `WorkflowType IN (${OURS}) AND TemporalWorkflowVersioningBehavior ${behavior}`,
);

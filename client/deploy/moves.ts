/**
 * Finds single executions, and moves them to another build by their options.
 *
 * 1. Only the execution that was looked at is moved, never one that follows it.
 * 2. An execution that has ended, or is another one by now, needs no move: that is no error.
 */
import type { Engine } from '../engine/engine.ts';
import { ifThere } from '../engine/executions.ts';
import { pinnedTo } from './versions.ts';

export interface ExecutionId {
  readonly workflowId: string;
  /** Empty: the newest one. */
  readonly runId: string;
}

/** `temporal.api.workflow.v1.VersioningOverride.PinnedOverrideBehavior`. */
const PINNED = 1;
/** `temporal.api.enums.v1.VersioningBehavior`. */
const STAYS = 1;
const AT_ONCE = 8;

/**
 * Has the next workflow tasks of an execution done by a build, whatever it is pinned to; without one, by the build that
 * did its last workflow task.
 */
export async function setOverride(
  engine: Engine,
  execution: ExecutionId,
  version?: { readonly deploymentName: string; readonly buildId: string },
): Promise<void> {
  const { client, namespace } = engine;
  await engine.call(execution.workflowId, async () =>
    ifThere(
      async () =>
        await client.connection.workflowService.updateWorkflowExecutionOptions({
          namespace,
          workflowExecution: execution,
          workflowExecutionOptions:
            version === undefined ? {} : { versioningOverride: { pinned: { behavior: PINNED, version } } },
          updateMask: { paths: ['versioning_override'] },
        }),
    ),
  );
}

/** Returns undefined if the execution is gone. This only reads: a lost answer leaves nothing uncertain. */
export async function standingOf(engine: Engine, execution: ExecutionId) {
  const { client, namespace } = engine;
  const found = await engine.call('', async () =>
    ifThere(async () => await client.connection.workflowService.describeWorkflowExecution({ namespace, execution })),
  );
  const info = found?.workflowExecutionInfo;
  if (!info || info.closeTime) return undefined;
  const { deploymentVersion, versioningOverride, versionTransition, behavior } = info.versioningInfo ?? {};
  return {
    runId: info.execution?.runId ?? '',
    /** True if the next tasks go to the build, and not to whichever is current. */
    stays: behavior === STAYS,
    /** The build that did the last workflow task. */
    build: deploymentVersion?.buildId || undefined,
    /** The build that an override names. */
    movedTo: versioningOverride?.pinned?.version?.buildId || undefined,
    /** The build that was handed a workflow task, and has not done it. */
    goingTo: versionTransition?.deploymentVersion?.buildId || undefined,
    /** How often the workflow task that is to be done was handed out; 0 if there is none. */
    attempts: found?.pendingWorkflowTask?.attempt ?? 0,
  };
}

/**
 * Withdraws the moves to a build; an execution that has worked there stays there.
 * @returns how many executions were to move, and stay where they were
 */
export async function withdrawMoves(engine: Engine, deployment: string, build: string): Promise<number> {
  let withdrawn = 0;
  const withdrawListed = async (): Promise<number> => {
    let found = 0;
    await each(engine.list(pinnedTo(deployment, build)), AT_ONCE, async ({ workflowId, runId }) => {
      const standing = await standingOf(engine, { workflowId, runId });
      if (standing?.movedTo !== build) return;
      await setOverride(engine, { workflowId, runId });
      found += 1;
      if (standing.build !== build) withdrawn += 1;
    });
    return found;
  };
  // Visibility lists late what a drain, ended by force, has moved last.
  while ((await withdrawListed()) > 0);
  return withdrawn;
}

/**
 * Works on several items at once.
 * @param act returns false if no further item is wanted
 * @throws what failed first, once all that was under way is over; nothing is begun after it
 */
export async function each<T>(
  items: AsyncIterable<T> | Iterable<T>,
  atOnce: number,
  act: (item: T) => Promise<unknown>,
): Promise<void> {
  const source = (async function* () {
    yield* items;
  })();
  const failures: unknown[] = [];
  let isOver = false;
  const work = async (): Promise<void> => {
    try {
      while (!isOver) {
        const next = await source.next();
        // Another one may have failed while this one waited for an item.
        if (next.done === true || isOver) return;
        if ((await act(next.value)) === false) isOver = true;
      }
    } catch (error) {
      failures.push(error);
      isOver = true;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  if (failures.length > 0) throw failures[0];
}

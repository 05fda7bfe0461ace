/**
 * Whether anybody takes the workflow tasks of a run or a catalog: by the pollers of its task queue, as Temporal has seen them.
 *
 * 1. Only a queue that nobody polls is told of; whatever cannot be found out says nothing.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { CountersignError } from '../contracts/errors.ts';
import { namingOf, type Subject, workflowIdOf } from './subject.ts';

/** `temporal.api.enums.v1.TaskQueueType`. */
const WORKFLOW_TASKS = 1;

/** One poll lasts up to a minute, and Temporal names its pollers for some minutes after they have gone. */
const SEEN_WITHIN_MS = 90_000;

const MOST_MS = 2_000;
const EVERY_MS = 10_000;

/** Why nobody answers; undefined where somebody polls, or where that cannot be found out. */
export async function unserved(client: Client, about: Subject): Promise<CountersignError | undefined> {
  try {
    return await client.connection.withDeadline(Date.now() + MOST_MS, async () => {
      const { taskQueue } = await client.workflow.getHandle(workflowIdOf(about)).describe();
      return (await isPolled(client, taskQueue)) ? undefined : nobodyAt(client, taskQueue, about);
    });
  } catch {
    return undefined;
  }
}

/** Looks at once and every some seconds; never throws. @param tell told once for each time in which nobody polls */
export async function tellUnserved(
  client: Client,
  about: Subject,
  tell: (trouble: CountersignError) => void,
  signal: AbortSignal,
): Promise<void> {
  let isTold = false;
  while (!signal.aborted) {
    const trouble = await unserved(client, about);
    if (signal.aborted) return;
    if (trouble !== undefined && !isTold) tell(trouble);
    isTold = trouble !== undefined;
    await pause(EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

async function isPolled(client: Client, name: string): Promise<boolean> {
  const { pollers } = await client.connection.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name },
    taskQueueType: WORKFLOW_TASKS,
  });
  const since = Date.now() - SEEN_WITHIN_MS;
  return pollers.some(({ lastAccessTime }) => !lastAccessTime || tsToMs(lastAccessTime) >= since);
}

function nobodyAt({ options: { namespace } }: Client, taskQueue: string, about: Subject): CountersignError {
  const { title, facts } = namingOf(about);
  return new CountersignError(
    'ENGINE_UNAVAILABLE',
    `No worker takes runs from task queue ${taskQueue} of namespace ${namespace}. ${title} waits, and nothing of it is lost; start a worker for that queue: countersign worker --namespace ${namespace}`,
    { ...facts, taskQueue, namespace },
  );
}

/**
 * Polls the sticky queue of a lost worker process and never answers. It shows when a query has been handed to
 * that worker.
 */
import type { Client } from '@temporalio/client';
import { until } from '../until.ts';

const STICKY = 2;
/** Temporal answers an empty poll shortly before its deadline. */
const POLL_MS = 30_000;

export interface LostPoller {
  /** Workflow ids whose query was handed over. */
  readonly asked: ReadonlySet<string>;
  stop(): Promise<void>;
}

/** @param workflowId any run that the lost worker had in memory */
export async function pollInstead(client: Client, workflowId: string, taskQueue: string): Promise<LostPoller> {
  const name = await stickyQueueOf(client, workflowId);
  const asked = new Set<string>();
  const over = new AbortController();
  const { connection, options } = client;
  const poll = async (): Promise<void> => {
    while (!over.signal.aborted) {
      try {
        // Each call gets a signal of its own, because the connection never removes its listener from a signal.
        const task = await connection.withAbortSignal(AbortSignal.any([over.signal]), async () =>
          connection.withDeadline(Date.now() + POLL_MS, async () =>
            connection.workflowService.pollWorkflowTaskQueue({
              namespace: options.namespace,
              taskQueue: { name, kind: STICKY, normalName: taskQueue },
              identity: 'frozen',
            }),
          ),
        );
        const id = task.workflowExecution?.workflowId;
        if (id && task.query) asked.add(id);
      } catch (error) {
        if (!over.signal.aborted) throw error;
      }
    }
  };
  const polling = Promise.all([poll(), poll(), poll(), poll()]);
  // A test that has failed does not stop it: its error would be that of whatever file the process plays next.
  polling.catch(() => undefined);
  return {
    asked,
    stop: async () => {
      over.abort();
      await polling;
    },
  };
}

async function stickyQueueOf(client: Client, workflowId: string): Promise<string> {
  return await until(
    async () => {
      const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
      const queues = (events ?? []).flatMap(({ workflowTaskScheduledEventAttributes: scheduled }) =>
        scheduled?.taskQueue?.kind === STICKY ? [scheduled.taskQueue.name ?? ''] : [],
      );
      return queues.at(-1);
    },
    { what: `the queue of the worker that has ${workflowId} in memory` },
  );
}

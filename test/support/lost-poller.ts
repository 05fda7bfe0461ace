/**
 * The queue that a lost worker process kept for its own runs, polled by a process that never answers: it shows when a query has left
 * for that worker.
 */
import type { Client } from '@temporalio/client';
import { until } from './until.ts';

const STICKY = 2;
/** Temporal answers a poll that brought nothing shortly before its deadline. */
const POLL_MS = 30_000;

export interface LostPoller {
  /** Workflow ids whose query was handed over. */
  readonly asked: ReadonlySet<string>;
  stop(): Promise<void>;
}

/** @param workflowId of any run that the lost worker had in memory */
export async function pollInstead(client: Client, workflowId: string, taskQueue: string): Promise<LostPoller> {
  const name = await stickyQueueOf(client, workflowId);
  const asked = new Set<string>();
  const over = new AbortController();
  const { connection, options } = client;
  const poll = async (): Promise<void> => {
    while (!over.signal.aborted) {
      try {
        // A signal of its own for each call: the connection never takes its listener off the one it is given.
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

/**
 * The way out for a run that no worker can take on: its workflow is reset to the last task that can be replayed (docs/adr/0045).
 *
 * Owns: what is shown before, and the reset. Does not own: which task that is (a replay says so), what the run does after.
 * 1. The execution that was looked at is reset, or none: a run that has gone on meanwhile is left alone.
 * 2. Asked for twice, it is done once.
 */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../contracts/errors.ts';
import { type DiscardedPart, discardedPart } from './discarded.ts';

/** Messages and stops that were sent to the run are sent to it again (temporal.api.enums.v1.ResetReapplyType). */
const REAPPLY_ALL = 3;

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

/** The newest execution of a workflow, and its history. */
export interface LivingHistory {
  readonly workflowId: string;
  /** Temporal run id. */
  readonly runId: string;
  readonly isOpen: boolean;
  readonly history: History;
}

export interface Recovery {
  readonly runId: string;
  /** Temporal run that is reset. */
  readonly execution: string;
  /** Event of the completed workflow task that is undone, with all after it. */
  readonly task: number;
  readonly discarded: DiscardedPart;
  /** Temporal run that goes on; absent where nothing was done. */
  readonly became?: string;
}

export interface RecoverOptions {
  /** Event of a completed workflow task: it and all after it are undone. */
  readonly task: number;
  /** Temporal run that the event is of. */
  readonly execution: string;
  /** Kept by Temporal. */
  readonly reason?: string;
  /** Only say what would be undone. */
  readonly dry?: boolean;
}

export async function livingHistory(client: Client, workflowId: string): Promise<LivingHistory> {
  const { runId, status } = await client.workflow.getHandle(workflowId).describe();
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  return { workflowId, runId, isOpen: status.name === 'RUNNING', history };
}

/** @throws CountersignError `USAGE`, `RUN_CLOSED` */
export async function recover(client: Client, workflowId: string, options: RecoverOptions): Promise<Recovery> {
  const { task, execution, reason = 'countersign recover', dry = false } = options;
  const { runId, isOpen, history } = await livingHistory(client, workflowId);
  if (runId !== execution)
    throw new CountersignError('USAGE', `Run ${workflowId} has gone on in another Temporal run. Look at it anew.`, {
      runId: workflowId,
    });
  if (!isOpen) throw new CountersignError('RUN_CLOSED', `Run ${workflowId} has ended.`, { runId: workflowId });
  const event = history.events?.find(({ eventId }) => Number(eventId) === task);
  if (!event?.workflowTaskCompletedEventAttributes)
    throw new CountersignError('USAGE', `Event ${task} of run ${workflowId} completes no workflow task.`, {
      runId: workflowId,
    });
  const found = { runId: workflowId, execution, task, discarded: await discardedPart(client, history, task) };
  if (dry) return found;
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason,
    requestId: `recover/${runId}/${task}`,
    workflowTaskFinishEventId: event.eventId ?? null,
    resetReapplyType: REAPPLY_ALL,
  });
  return { ...found, became: answer.runId };
}

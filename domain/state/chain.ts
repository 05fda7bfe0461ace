/**
 * In which Temporal runs a decision may have been made (INV-G2).
 *
 * 1. The current one, and earlier ones of the chain as long as this one was not made by a reset.
 * 2. A reset run starts the list anew: what was decided before it does not count.
 */
export interface Execution {
  /** Temporal run id. */
  readonly runId: string;
  /** Differs from `runId` in a run made by a reset (Temporal `WorkflowInfo`). */
  readonly originalRunId: string;
  /** Run ids of the executions before this one, as continue-as-new carried them. */
  readonly earlier: readonly string[];
}

/** Executions whose ids are carried on; a decision older than that is stale. */
const MOST_EARLIER = 200;

export function decidedIn(execution: Execution): readonly string[] {
  return execution.runId === execution.originalRunId ? [...execution.earlier, execution.runId] : [execution.runId];
}

/** What the next execution carries as `earlier`. */
export function carriedExecutions(execution: Execution): readonly string[] {
  return decidedIn(execution).slice(-MOST_EARLIER);
}

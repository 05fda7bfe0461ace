/**
 * Says in which Temporal runs of a workflow chain a decision may have been made (INV-G2).
 *
 * 1. A decision counts if it was made in the current run, or in an earlier run of the chain.
 * 2. A run made by a reset starts the list anew: decisions made before the reset do not count.
 */
export interface Execution {
  /** Temporal run id. */
  readonly runId: string;
  /** Differs from `runId` in a run made by a reset (Temporal `WorkflowInfo`). */
  readonly originalRunId: string;
  /** Run ids of the executions before this one, as continue-as-new carried them. */
  readonly earlier: readonly string[];
}

/** Most execution ids that are carried on; a decision made in an older execution is stale. */
const MOST_EARLIER = 200;

/** Returns the ids of the Temporal runs in which a decision counts, oldest first. */
export function decidedIn(execution: Execution): readonly string[] {
  return execution.runId === execution.originalRunId ? [...execution.earlier, execution.runId] : [execution.runId];
}

/** Returns the list that the next execution carries as `earlier`. */
export function carriedExecutions(execution: Execution): readonly string[] {
  return decidedIn(execution).slice(-MOST_EARLIER);
}

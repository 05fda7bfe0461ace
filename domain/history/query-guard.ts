/**
 * Tells the direct queries that a run must not answer: those for which its worker took in events that no workflow task has handed to it.
 *
 * Pure. A worker that is asked directly, with no workflow task at hand, rebuilds the run or catches up to the newest event, runs the
 * workflow on what has no task yet, or on a task that another process holds, and keeps the result (docs/adr/0044). Its clock and its
 * commands are then those of a task that never was. A refused query makes the worker drop the run, and the real task rebuilds it.
 *
 * 1. Nothing but a direct query is ever refused: a workflow task cannot fail by this.
 * 2. A doubt is wrong at the price of one query that is asked again; a missing doubt breaks a run for good.
 */

/** One thing that a worker hands to a run. */
export type Activation =
  /** Events whose task has been completed. */
  | { readonly kind: 'replayed'; readonly task: string }
  | {
      /** Newer ones: of a workflow task, or of none. */
      readonly kind: 'live';
      /** Differs with each workflow task: its time, and the size of history at its start. */
      readonly task: string;
      /** Number of the newest event. */
      readonly event: number;
      /** Nothing but activities that were cancelled. */
      readonly isCancelled: boolean;
      /** Real time since the task was started, in ms; clocks of two machines. */
      readonly ageMs: number;
    }
  /** A query that came with a workflow task, which therefore is this worker's. */
  | { readonly kind: 'accompanied' }
  /** A query that came alone. */
  | { readonly kind: 'direct' };

/** What a run in a worker's memory has been handed so far. */
export interface Intake {
  readonly task?: string;
  readonly event?: number;
  /** Tasks of other workers, or of earlier days, came last. */
  readonly isBehind: boolean;
  /** The newest events may be those that a direct query brought: such a query would be next. */
  readonly isDoubtful: boolean;
  /** The least that any task needed to get here: what two clocks are apart, and the way. */
  readonly leastAgeMs?: number;
}

export const NOTHING: Intake = { isBehind: false, isDoubtful: false };

/**
 * A task that is this much older than usual when it gets here may have been started by a process that holds it and does not answer.
 * Temporal takes it back from there after 10 s.
 */
const OLD_MS = 2_000;

export function taken(intake: Intake, activation: Activation): Intake {
  switch (activation.kind) {
    case 'replayed':
      return { ...intake, task: activation.task, isBehind: true, isDoubtful: false };
    case 'live': {
      const { task, event, ageMs } = activation;
      // What a run cancels is told to it at once, in the same task.
      if (activation.isCancelled && task === intake.task && event === intake.event) return intake;
      const leastAgeMs = Math.min(ageMs, intake.leastAgeMs ?? ageMs);
      const isDoubtful = intake.isBehind || task === intake.task || ageMs - leastAgeMs > OLD_MS;
      return { task, event, isBehind: false, isDoubtful, leastAgeMs };
    }
    case 'accompanied':
      return { ...intake, isDoubtful: false };
    case 'direct':
      return intake;
  }
}

export function isRefused({ isDoubtful }: Intake, { kind }: Activation): boolean {
  return kind === 'direct' && isDoubtful;
}

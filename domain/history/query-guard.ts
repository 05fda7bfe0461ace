/**
 * The guard finds the direct queries that a run must not answer: those for which its worker took in events that no
 * workflow task has handed to it (docs/adr/0044).
 *
 * A worker that is queried directly, with no workflow task at hand, rebuilds the run or catches up to the newest event.
 * It then runs the workflow on events that have no task yet, or on a task that another process holds, and keeps the
 * result. The clock and the commands of that result belong to a task that never was. A refused query makes the worker
 * drop the run, and the real task rebuilds it. The file is pure.
 *
 * 1. A doubt refuses only a direct query. It costs one query that is asked again; a missing doubt breaks a run for good.
 * 2. A workflow task is refused only where history proves that the task before it was never recorded.
 */

/** A unit of work that a worker hands to a run. */
export type Activation =
  /** Events whose workflow task has completed. */
  | { readonly kind: 'replayed'; readonly task: string }
  | {
      /** Newer events, with a workflow task or without one. */
      readonly kind: 'live';
      /** Differs with each workflow task: its time, and the size of history at its start. */
      readonly task: string;
      /** Number of the newest event. */
      readonly event: number;
      /** True if the unit only cancels activities. */
      readonly isCancelled: boolean;
      /** Real time since the task was started, in ms, by the clocks of two machines. */
      readonly ageMs: number;
    }
  /** A query that came with a workflow task, which therefore belongs to this worker. */
  | { readonly kind: 'accompanied' }
  /** A query that came alone. */
  | { readonly kind: 'direct' }
  /** What the run asked for in the unit before. */
  | {
      readonly kind: 'commanded';
      /** Names of what it began. Each leaves an event, unless the same task takes it back. */
      readonly begun: readonly string[];
      /** Names of what it took back. The event of that is not counted: what has ended meanwhile gets none. */
      readonly cancelled: readonly string[];
      /** Number of other commands that each leave an event. */
      readonly others: number;
    };

/** Everything that a run in a worker's memory has been handed so far. */
export interface Intake {
  readonly task?: string;
  readonly event?: number;
  /** True if tasks of other workers, or older ones, came last. */
  readonly isBehind: boolean;
  /** True if a direct query may have brought the newest events: such a query would come next. */
  readonly isDoubtful: boolean;
  /** The smallest age of any task on arrival: the difference of the clocks, and the transport. */
  readonly leastAgeMs?: number;
  /** What the run asked for in its newest task. */
  readonly commanded: Commanded;
}

interface Commanded {
  /** Names of what it began and did not take back. */
  readonly begun: readonly string[];
  /** Number of its other commands that each leave an event. */
  readonly others: number;
}

const NO_COMMANDS: Commanded = { begun: [], others: 0 };

export const NOTHING: Intake = { isBehind: false, isDoubtful: false, commanded: NO_COMMANDS };

/**
 * A task that arrives this much later than usual may be held by another process that does not answer. Temporal takes
 * the task back from there after 10 s.
 */
const OLD_MS = 2_000;

/** Events of every task: its completion, and the scheduling and start of the next one. */
const EVENTS_OF_A_TASK = 3;

/** Returns the intake after an activation. */
export function taken(intake: Intake, activation: Activation): Intake {
  switch (activation.kind) {
    case 'replayed':
      return { ...intake, task: activation.task, isBehind: true, isDoubtful: false };
    case 'live': {
      const { task, event, ageMs } = activation;
      // Two tasks may share time and size; the units of one task also share the newest event.
      const isSame = task === intake.task && event === intake.event;
      // A run hears of its own cancellations at once, in the same task.
      if (activation.isCancelled && isSame) return intake;
      const commanded = isSame ? intake.commanded : NO_COMMANDS;
      const leastAgeMs = Math.min(ageMs, intake.leastAgeMs ?? ageMs);
      const isDoubtful = intake.isBehind || task === intake.task || ageMs - leastAgeMs > OLD_MS;
      return { task, event, isBehind: false, isDoubtful, leastAgeMs, commanded };
    }
    case 'accompanied':
      return { ...intake, isDoubtful: false };
    case 'commanded':
      // What a replay asks for was recorded, and would add up without end.
      return intake.isBehind ? intake : { ...intake, commanded: joined(intake.commanded, activation) };
    case 'direct':
      return intake;
  }
}

function joined(
  { begun, others }: Commanded,
  { begun: more, cancelled, others: further }: Extract<Activation, { kind: 'commanded' }>,
): Commanded {
  return { begun: [...begun, ...more].filter((name) => !cancelled.includes(name)), others: others + further };
}

/** True if the activation is a direct query that must not be answered. */
export function isRefused({ isDoubtful }: Intake, { kind }: Activation): boolean {
  return kind === 'direct' && isDoubtful;
}

/**
 * True if the activation is the next task of a run whose newest task was never recorded: history has too few events
 * for what the run asked for in it. A query brought that task from a process that then did not answer. The run must be
 * rebuilt, or what it asked for at that time would be recorded with this task.
 */
export function isUnrecorded({ event, commanded }: Intake, next: Activation): boolean {
  // Units of one task share the newest event.
  if (next.kind !== 'live' || event === undefined || next.event === event) return false;
  const events = commanded.begun.length + commanded.others;
  // A task that asked for nothing may leave no event at all: one that brought an update which was refused.
  return events > 0 && next.event < event + events + EVENTS_OF_A_TASK;
}

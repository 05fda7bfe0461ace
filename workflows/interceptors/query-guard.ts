/**
 * Refuses direct queries, those that come without a workflow task, if the worker took in events for them that no task
 * has handed to it (docs/adr/0044, 0091): their clock and commands belong to a task that never was, and the worker
 * would keep them. A refused query makes it drop the run, and the real task rebuilds it. It changes no command, so a
 * history replays with it and without it.
 *
 * 1. Only a direct query is ever refused: a workflow task cannot fail by this.
 * 2. A wrong doubt costs one query that is asked again; a missing doubt breaks a run for good.
 * 3. Its state belongs to one run in one worker's memory: the SDK calls `interceptors` for each run (INV-D4).
 */
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import {
  type ActivateInput,
  proxySinks,
  type Sinks,
  workflowInfo,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { REFUSED_QUERY, whenAsked } from '../../contracts/failure.ts';

export interface QueryGuardSinks extends Sinks {
  readonly queryGuard: { refused(): void };
}

/** The id that the SDK gives to a query that comes without a workflow task. */
const DIRECT = 'legacy_query';

export function interceptors(): WorkflowInterceptors {
  const { queryGuard } = proxySinks<QueryGuardSinks>();
  let intake = NOTHING;
  return {
    internals: [
      {
        activate: (input, next) => {
          // Another part of the same activation, which was checked with the first part.
          if (input.batchIndex === 0) {
            const activation = activationOf(input);
            if (isRefused(intake, activation)) {
              queryGuard.refused();
              throw new Error(REFUSED_QUERY);
            }
            intake = taken(intake, activation);
          }
          next(input);
        },
      },
    ],
  };
}

function activationOf({ activation }: ActivateInput): Activation {
  const jobs = activation.jobs ?? [];
  const query = jobs.find(({ queryWorkflow }) => queryWorkflow)?.queryWorkflow;
  if (query)
    return query.queryId === DIRECT
      ? { kind: 'direct', ...defined({ askedAt: askedAtOf(query.arguments) }) }
      : { kind: 'accompanied' };
  const { timestamp, historySizeBytes, isReplaying } = activation;
  // The time alone is not enough: it never goes back, so tasks share one while the server's clock is behind.
  const task = [timestamp?.seconds, timestamp?.nanos, historySizeBytes].map(String).join('/');
  if (isReplaying === true) return { kind: 'replayed', task };
  return {
    kind: 'live',
    task,
    event: activation.historyLength ?? 0,
    startedAt: Number(timestamp?.seconds ?? 0) * 1_000 + Math.floor((timestamp?.nanos ?? 0) / 1_000_000),
    isCancelled: jobs.length > 0 && jobs.every(({ resolveActivity }) => resolveActivity?.result?.cancelled),
    ageMs: workflowInfo().unsafe.now() - Date.now(),
  };
}

/** What a caller cannot be held to says nothing. */
function askedAtOf(args: readonly Payload[] | null | undefined): number | undefined {
  try {
    return whenAsked((args ?? []).map((each) => defaultPayloadConverter.fromPayload(each)));
  } catch {
    return undefined;
  }
}

export type Activation =
  /** Events whose workflow task has completed. */
  | { readonly kind: 'replayed'; readonly task: string }
  | {
      readonly kind: 'live';
      /** Differs with each workflow task: its time, and the size of history at its start. */
      readonly task: string;
      readonly event: number;
      /** When its workflow task was started, in epoch ms by Temporal's clock. */
      readonly startedAt: number;
      /** True if the unit only cancels activities. */
      readonly isCancelled: boolean;
      /** Real time since the task was started, in ms, by the clocks of two machines. */
      readonly ageMs: number;
    }
  /** A query that came with a workflow task, which therefore belongs to this worker. */
  | { readonly kind: 'accompanied' }
  | {
      readonly kind: 'direct';
      /** When it was asked, in epoch ms by the asker's clock, if it says so. */
      readonly askedAt?: number;
    };

/** Everything that a run in a worker's memory has been handed so far. */
export interface Intake {
  readonly task?: string;
  readonly event?: number;
  /** When the newest task was started, unless it is known to be over, or this worker's. */
  readonly startedAt?: number;
  /** True if tasks of other workers, or older ones, came last. */
  readonly isBehind: boolean;
  /** True if a direct query may have brought the newest events: such a query would come next. */
  readonly isDoubtful: boolean;
  /** The smallest age of any task on arrival: the difference of the clocks, and the transport. */
  readonly leastAgeMs?: number;
}

export const NOTHING: Intake = { isBehind: false, isDoubtful: false };

/** So late a task may be held by another process that does not answer; Temporal takes it back after 10 s. */
const OLD_MS = 2_000;

/**
 * The clocks of Temporal and of this machine are taken to differ by this much at most. A worker under load gets all
 * tasks of a run late, which must not pass for a difference of clocks. Where the clocks differ by more than this and
 * `OLD_MS` together, one query for each task is asked again.
 */
const MOST_SKEW_MS = 500;

export function taken(intake: Intake, activation: Activation): Intake {
  switch (activation.kind) {
    case 'replayed':
      return { ...withoutStart(intake), task: activation.task, isBehind: true, isDoubtful: false };
    case 'live': {
      const { task, event, startedAt, ageMs } = activation;
      // A run hears of its own cancellations at once, in the same task.
      if (activation.isCancelled && task === intake.task && event === intake.event) return intake;
      const leastAgeMs = Math.min(ageMs, intake.leastAgeMs ?? ageMs);
      const isOld = ageMs - Math.min(leastAgeMs, MOST_SKEW_MS) > OLD_MS;
      const isDoubtful = intake.isBehind || task === intake.task || isOld;
      return { task, event, startedAt, isBehind: false, isDoubtful, leastAgeMs };
    }
    case 'accompanied':
      return { ...withoutStart(intake), isDoubtful: false };
    case 'direct':
      return intake;
  }
}

function withoutStart({ startedAt: _, ...intake }: Intake): Intake {
  return intake;
}

/**
 * A task goes to another worker only after the run's own has been away for `worker.stickyQueueTimeoutMs` (2 s by
 * default), and the query was there before. A query that has waited less met a task of this worker.
 */
const WAITED_MS = 1_000;

/**
 * True if the activation is a direct query that must not be answered. Temporal hands a query on alone if no task is
 * under way when it is asked. So a task that started before is over. One that started later may be another worker's.
 */
export function isRefused({ isDoubtful, startedAt }: Intake, activation: Activation): boolean {
  if (activation.kind !== 'direct') return false;
  const { askedAt } = activation;
  return isDoubtful || (askedAt !== undefined && startedAt !== undefined && startedAt - askedAt > WAITED_MS);
}

/**
 * Refuses a direct query if the worker loaded events without their workflow task. The worker then drops the run, and
 * the task itself rebuilds it (`domain/history/query-guard.ts`, docs/adr/0044).
 *
 * The interceptor is in every bundle (`workers/bundle.ts`). It changes no command, so a history replays with it and
 * without it.
 * 1. Its state belongs to one run in one worker's memory: the SDK calls `interceptors` for each run (INV-D4).
 */
import {
  type ActivateInput,
  proxySinks,
  type Sinks,
  workflowInfo,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import { REFUSED_QUERY } from '../../contracts/failure.ts';
import { type Activation, isRefused, NOTHING, taken } from '../../domain/history/query-guard.ts';

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
  if (query) return { kind: query.queryId === DIRECT ? 'direct' : 'accompanied' };
  const { timestamp, historySizeBytes, isReplaying } = activation;
  // The time alone is not enough. The SDK never sets a run's clock back, so tasks share one time while the server's
  // clock is behind.
  const task = [timestamp?.seconds, timestamp?.nanos, historySizeBytes].map(String).join('/');
  if (isReplaying === true) return { kind: 'replayed', task };
  return {
    kind: 'live',
    task,
    event: activation.historyLength ?? 0,
    isCancelled: jobs.length > 0 && jobs.every(({ resolveActivity }) => resolveActivity?.result?.cancelled),
    ageMs: workflowInfo().unsafe.now() - Date.now(),
  };
}

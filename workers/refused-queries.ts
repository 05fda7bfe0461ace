/**
 * Handles refused queries in a worker process (docs/adr/0044): it counts those of its own runs, and repeats
 * its own queries.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import type { InjectedSinks, Runtime } from '@temporalio/worker';
import { METRICS } from '../contracts/names.ts';
import { isRefusedQuery, untilAnswered } from '../contracts/refused-query.ts';
import type { QueryGuardSinks } from '../workflows/interceptors/query-guard.ts';

/** Counts in a sink: the meter of workflows is silent in queries. */
export function countRefused({ metricMeter }: Pick<Runtime, 'metricMeter'>): InjectedSinks<QueryGuardSinks> {
  const refused = metricMeter.createCounter(METRICS.refusedQueries, '', 'Queries that were refused and asked again.');
  return {
    queryGuard: { refused: { fn: ({ workflowType }) => refused.add(1, { workflow: workflowType }) } },
  };
}

/** Repeats refused queries of activities, which ask runs and catalogs too. */
export function askingAgain(): WorkflowClientInterceptor {
  return {
    query: async (input, next) => {
      try {
        return await untilAnswered(() => next(input), pause);
      } catch (error) {
        if (!isRefusedQuery(error)) throw error;
        // The SDK would report an unknown query, on which callers act; this is another error.
        throw new Error('the run was not read: it was between two workflow tasks each time', { cause: error });
      }
    },
  };
}

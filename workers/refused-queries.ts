/** What a worker process does with queries that are refused (docs/adr/0044): it counts those of its own runs, and asks its own again. */
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import type { InjectedSinks, Runtime } from '@temporalio/worker';
import { METRICS } from '../contracts/names.ts';
import { isRefusedQuery, untilAnswered } from '../contracts/refused-query.ts';
import type { QueryGuardSinks } from '../workflows/interceptors/query-guard.ts';

/** A sink, not the meter of workflows: that one is silent in queries. */
export function countRefused({ metricMeter }: Pick<Runtime, 'metricMeter'>): InjectedSinks<QueryGuardSinks> {
  const refused = metricMeter.createCounter(METRICS.refusedQueries, '', 'Queries that were refused and asked again.');
  return {
    queryGuard: { refused: { fn: ({ workflowType }) => refused.add(1, { workflow: workflowType }) } },
  };
}

/** Activities ask runs and catalogs too. */
export function askingAgain(): WorkflowClientInterceptor {
  return {
    query: async (input, next) => {
      try {
        return await untilAnswered(() => next(input), pause);
      } catch (error) {
        if (!isRefusedQuery(error)) throw error;
        // Not what the SDK takes it for, an unknown query: callers act on that.
        throw new Error('the run was not read: it was between two workflow tasks each time', { cause: error });
      }
    },
  };
}

/** Hands the trace of a run to its activities. Loaded where tracing is on: a bundle is made without activities. */
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { inTrace } from '../activities/kit/trace.ts';

/** The header in which the interceptors send the trace. */
const TRACE_HEADER = '_tracer-data';

/** Lets activities name the trace of the workflow that scheduled them; their own spans have nowhere to go. */
export const traced: ActivityInterceptorsFactory = () => ({
  inbound: {
    execute: async (input, next) => await inTrace(input.headers[TRACE_HEADER], async () => await next(input)),
  },
});

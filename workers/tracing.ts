/** Sets up tracing. Loaded where a bundle is made, or tracing is on. */
import { resourceFromAttributes } from '@opentelemetry/resources';
import { ConsoleSpanExporter, NoopSpanProcessor, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { OpenTelemetryPlugin } from '@temporalio/interceptors-opentelemetry-v2';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { inTrace } from '../activities/kit/trace.ts';
import type { Config } from '../contracts/schemas/config.ts';

/**
 * Sets up OpenTelemetry, in place since the first recorded history: interceptors change what a run replays, so they
 * cannot be added later (ADR 0006). With `off` no span is made (docs/adr/0065).
 */
export function createTracing(tracing: Config['tracing']): OpenTelemetryPlugin {
  return new OpenTelemetryPlugin({
    resource: resourceFromAttributes({ 'service.name': 'countersign' }),
    spanProcessor: tracing === 'console' ? new SimpleSpanProcessor(new ConsoleSpanExporter()) : new NoopSpanProcessor(),
  });
}

const TRACE_HEADER = '_tracer-data';

/** Lets activities name the trace of the workflow that scheduled them; their own spans have nowhere to go. */
export const traced: ActivityInterceptorsFactory = () => ({
  inbound: {
    execute: async (input, next) => await inTrace(input.headers[TRACE_HEADER], async () => await next(input)),
  },
});

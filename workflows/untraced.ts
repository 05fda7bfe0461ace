/**
 * Stands in for OpenTelemetry's SDK in a bundle whose spans nobody reads (`tracing: off`, docs/adr/0065). The tracing
 * interceptors stay as they are, since a run replays their promises; their tracer makes no spans.
 *
 * It exports what these interceptors take from `@opentelemetry/sdk-trace-base`.
 */
import { ProxyTracerProvider, type Tracer } from '@opentelemetry/api';

export class BasicTracerProvider {
  getTracer(name: string): Tracer {
    return new ProxyTracerProvider().getTracer(name);
  }
}

export class SimpleSpanProcessor {}

/**
 * Stands in for OpenTelemetry's SDK in a bundle whose spans nobody reads (`tracing: off`, docs/adr/0065). The tracing
 * interceptors stay as they are, since a run replays their promises; their tracer makes no spans, and drops the trace
 * that a run was started with.
 *
 * It exports what these interceptors take from `@opentelemetry/sdk-trace-base`.
 */

/** Every method of a span that the interceptors call. */
const SPAN = {
  setAttribute: () => SPAN,
  setStatus: () => SPAN,
  recordException: () => undefined,
  end: () => undefined,
};

const TRACER = {
  /** @param rest options, context and function, of which the function is the last */
  startActiveSpan: (_name: string, ...rest: readonly unknown[]): unknown => {
    // Sound: so OpenTelemetry declares the method.
    const act = rest.at(-1) as (span: typeof SPAN) => unknown;
    return act(SPAN);
  },
};

export class BasicTracerProvider {
  getTracer(): typeof TRACER {
    return TRACER;
  }
}

/** The interceptors construct it, and hand it to the provider. */
export function SimpleSpanProcessor(): void {}

/**
 * Counts what every HTTP server of ours counts, for Prometheus: its answers.
 *
 * 1. Labels are patterns of routes and statuses: paths and methods that nobody serves are without number.
 */
import { Counter, Histogram, Registry } from 'prom-client';

const HTTP_SECONDS = [0.01, 0.05, 0.1, 0.3, 1, 3, 10, 30];

/** One HTTP request that has been answered. */
export interface Answered {
  readonly method: string;
  /** Pattern of the route; undefined if there is none. */
  readonly route: string | undefined;
  readonly status: number;
  /** Undefined for a stream, which lasts as long as somebody reads. */
  readonly seconds: number | undefined;
}

export class HttpMetrics {
  protected readonly registry = new Registry();
  readonly #answers: Counter<'method' | 'route' | 'status'>;
  readonly #seconds: Histogram<'method' | 'route'>;

  constructor(names: { readonly http: string; readonly httpSeconds: string }) {
    const registers = [this.registry];
    this.#answers = new Counter({
      name: names.http,
      help: 'HTTP requests that were answered.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: names.httpSeconds,
      help: 'Time of an answer.',
      labelNames: ['method', 'route'],
      buckets: HTTP_SECONDS,
      registers,
    });
  }

  answeredHttp({ method, route, status, seconds }: Answered): void {
    const at = route === undefined ? { method: 'other', route: '(unknown)' } : { method, route };
    this.#answers.inc({ ...at, status });
    if (seconds !== undefined) this.#seconds.observe(at, seconds);
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  /** Everything in Prometheus' text format. */
  async text(): Promise<string> {
    return await this.registry.metrics();
  }
}

/**
 * Counts what a codec server does, for Prometheus.
 *
 * 1. No label says who has read, or what: the log says who.
 */
import { collectDefaultMetrics, Counter, Registry } from 'prom-client';
import { CODEC_METRICS } from '../../contracts/metrics.ts';
import { type Answered, HttpMetrics } from '../metrics/http.ts';

/** `clear`: it was not encrypted. `unreadable`: no key of this server reads it. */
export type Read = 'decrypted' | 'clear' | 'unreadable';

export class CodecMetrics {
  readonly #registry = new Registry();
  readonly #payloads: Counter<'result'>;
  readonly #http: HttpMetrics;

  constructor() {
    this.#payloads = new Counter({
      name: CODEC_METRICS.payloads,
      help: 'Payloads that were asked for, by what became of them.',
      labelNames: ['result'],
      registers: [this.#registry],
    });
    for (const result of ['decrypted', 'clear', 'unreadable'] satisfies Read[]) this.#payloads.inc({ result }, 0);
    this.#http = new HttpMetrics(this.#registry, CODEC_METRICS);
    collectDefaultMetrics({ register: this.#registry });
  }

  read(result: Read): void {
    this.#payloads.inc({ result });
  }

  answeredHttp(answered: Answered): void {
    this.#http.answered(answered);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async text(): Promise<string> {
    return await this.#registry.metrics();
  }
}

/**
 * Counts what every HTTP server of ours counts, its answers, and serves metrics to Prometheus on an address of their
 * own: whoever reaches the API does not reach them.
 *
 * 1. Labels are patterns of routes and statuses: paths and methods that nobody serves are without number.
 * 2. Where Prometheus reads, nothing of a request is read but method and path.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, Histogram, Registry } from 'prom-client';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';

const HTTP_SECONDS = [0.01, 0.05, 0.1, 0.3, 1, 3, 10, 30];

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

  async text(): Promise<string> {
    return await this.registry.metrics();
  }
}

const REQUEST_MS = 5_000;
const MOST_CONNECTIONS = 64;

export interface MetricsServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * @param address IP address and port
 * @param path of the address in the configuration
 * @throws CountersignError `SETUP_INCOMPLETE` if the address cannot be opened
 */
export async function serveMetrics(metrics: HttpMetrics, address: string, path: string): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    const isAsked = request.url?.split('?')[0] === '/metrics' && request.method === 'GET';
    if (!isAsked) return void response.writeHead(404).end();
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  server.requestTimeout = REQUEST_MS;
  server.headersTimeout = REQUEST_MS;
  server.maxConnections = MOST_CONNECTIONS;
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const message = `Metrics cannot be served at ${address} (${nodeCodeOf(error) ?? 'error'}). Choose another address in ${path}; each process on this machine needs one of its own.`;
      reject(new CountersignError('SETUP_INCOMPLETE', message, { path }, { cause: error }));
    });
    server.listen(Number(address.slice(colon + 1)), host.replace(/^\[|\]$/g, ''), resolve);
  });
  // Sound: a server that listens on a port has such an address.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}/metrics`,
    close: async () =>
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

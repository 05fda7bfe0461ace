/**
 * Serves metrics on an address of their own: whoever reaches the API does not reach them.
 *
 * 1. It reads nothing of a request but method and path.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';

/** Limit of a whole request. */
const REQUEST_MS = 5_000;
const MOST_CONNECTIONS = 64;

export interface MetricsServer {
  readonly url: string;
  close(): Promise<void>;
}

/** What is counted, in Prometheus' text format. */
export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
}

/**
 * @param address IP address and port
 * @param path of the address in the configuration
 * @throws CountersignError `SETUP_INCOMPLETE` if the address cannot be opened
 */
export async function serveMetrics(metrics: Metrics, address: string, path: string): Promise<MetricsServer> {
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

/**
 * Serves the HTTP port of a worker process: whether it lives, and the public keys of its issuer (ADR 0034).
 *
 * 1. It reads nothing of a request but method and path, and answers with what existed before the request came.
 */
import { createServer, type ServerResponse } from 'node:http';
import { issuerMetadata, publishedKeys } from '../activities/tokens/issued.ts';
import { CountersignError } from '../contracts/errors.ts';
import { PUBLISHED_PATHS } from '../contracts/names.ts';
import type { LoadedConfig, WorkerRole } from './config/load.ts';

/** Servers that verify tokens cache keys for at most this long. */
const KEYS_KEPT_SECONDS = 300;
/** Limit of a whole request: a probe, or a request for keys, needs much less. */
const REQUEST_MS = 5_000;
/** Interval of checks on connections: a silent one is closed that much later at the most. */
const LOOK_OVER_MS = 1_000;
/** Further connections are refused: each is a file, of which calls and Temporal need some. */
const MOST_CONNECTIONS = 256;

/**
 * Returns undefined if the configuration has no health port.
 *
 * @param role `runs` has no key of the issuer, and so publishes none
 * @param isAlive asked for each request
 * @throws CountersignError `SETUP_INCOMPLETE` if the port cannot be opened
 */
export async function startHealth({ config, baseDirectory }: LoadedConfig, role: WorkerRole, isAlive: () => boolean) {
  const { health, issuer } = config;
  if (health === undefined) return undefined;
  const published = new Map<string, string>(
    issuer === undefined || role === 'runs'
      ? []
      : [
          [PUBLISHED_PATHS.keys, JSON.stringify(await publishedKeys(issuer, baseDirectory))],
          [PUBLISHED_PATHS.metadata, JSON.stringify(issuerMetadata(issuer))],
        ],
  );
  const server = createServer({ connectionsCheckingInterval: LOOK_OVER_MS }, (request, response) => {
    const path = request.url?.split('?')[0] ?? '';
    const document = published.get(path);
    if (request.method !== 'GET' && request.method !== 'HEAD') send(response, 405, '{"error":"method not allowed"}');
    else if (path === PUBLISHED_PATHS.alive) send(response, isAlive() ? 200 : 503, `{"alive":${isAlive()}}`);
    else if (document === undefined) send(response, 404, '{"error":"not found"}');
    else send(response, 200, document, `public, max-age=${KEYS_KEPT_SECONDS}`);
  });
  server.requestTimeout = REQUEST_MS;
  server.headersTimeout = REQUEST_MS;
  server.maxConnections = MOST_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const message = `The health port ${health.host}:${health.port} cannot be used (${error.code ?? 'error'}). Choose another health.port.`;
      reject(new CountersignError('SETUP_INCOMPLETE', message, { path: 'health.port' }));
    });
    server.listen(health.port, health.host, resolve);
  });
  return {
    close: async (): Promise<void> =>
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function send(response: ServerResponse, status: number, json: string, cached = 'no-store'): void {
  const headers = { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', 'cache-control': cached };
  response.writeHead(status, headers).end(json);
}

/**
 * The HTTP requests to a provider: undici's own `fetch`, because the one built into Node gives up after 300 s without a
 * header or a chunk, and a model may think longer. The adapter's deadline and the run's cancellation end a request.
 */
import { Agent, fetch } from 'undici';

const CONNECT_TIMEOUT_MS = 10_000;

/** One pool for all models of a worker; idle sockets keep no process alive. */
const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_TIMEOUT_MS } });

export interface ProviderFetchOptions {
  /** Without a key no header for one is sent: the server in front of the model may add its own. */
  readonly hasKey: boolean;
  /** Last word on the JSON of a request. */
  readonly rewrite?: (body: string) => string;
}

const KEY_HEADERS = new Set(['authorization', 'x-api-key']);

export function createProviderFetch({ hasKey, rewrite }: ProviderFetchOptions): typeof globalThis.fetch {
  const send = async (url: string, init: Parameters<typeof fetch>[1] = {}): Promise<unknown> => {
    const headers = Object.entries(init.headers ?? {}).filter(
      ([name]) => hasKey || !KEY_HEADERS.has(name.toLowerCase()),
    );
    const body = rewrite !== undefined && typeof init.body === 'string' ? rewrite(init.body) : init.body;
    // A redirect would carry the key to another host: `x-api-key` is not among the headers that fetch drops.
    return fetch(url, { ...init, headers, ...(body === undefined ? {} : { body }), redirect: 'manual', dispatcher });
  };
  // Sound: the provider packages call it with a URL string and a plain init, and undici's Response is the platform's.
  return send as typeof globalThis.fetch;
}

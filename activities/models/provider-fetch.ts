/**
 * The HTTP requests to a provider. A model may think for long without a word: the adapter's deadline and the run's cancellation
 * end a request, and nothing else.
 */
import type { GuardedFetch } from '../egress/fetch.ts';

export interface ProviderFetchOptions {
  readonly fetch: GuardedFetch;
  /** Without a key no header for one is sent: the server in front of the model may add its own. */
  readonly hasKey: boolean;
  /** Last word on the JSON of a request. */
  readonly rewrite?: (body: string) => string;
}

const KEY_HEADERS = new Set(['authorization', 'x-api-key']);

export function createProviderFetch({ fetch, hasKey, rewrite }: ProviderFetchOptions): typeof globalThis.fetch {
  const send = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const headers = Object.entries(init.headers ?? {}).filter(
      ([name]) => hasKey || !KEY_HEADERS.has(name.toLowerCase()),
    );
    const body = rewrite !== undefined && typeof init.body === 'string' ? rewrite(init.body) : init.body;
    return fetch(url, { ...init, headers, ...(body === undefined ? {} : { body }) });
  };
  // Sound: the provider packages call it with a URL string and a plain init.
  return send as typeof globalThis.fetch;
}

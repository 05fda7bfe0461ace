/**
 * Trusted keys at a URL: whoever answers there says who may countersign, so the request is a guarded one.
 *
 * 1. No redirect is followed: only the host that the operator named is believed.
 * 2. Time and size are bounded. That it goes over TLS is checked with the configuration.
 */
import { fetch } from 'undici';
import { capResponse } from '../tools/byte-cap.ts';
import type { TrustStore } from './port.ts';

const FRESH_MS = 15_000;
const TIMEOUT_MS = 5_000;
const MOST_BYTES = 4_194_304;

export function createTrustUrl(url: string): TrustStore {
  return {
    name: url,
    freshMs: FRESH_MS,
    read: async (): Promise<unknown> => {
      const aborter = new AbortController();
      const response = await fetch(url, {
        redirect: 'error',
        headers: { accept: 'application/jwk-set+json, application/json' },
        signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), aborter.signal]),
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new Error(`answered ${response.status}`);
      }
      const capped = capResponse(response, {
        maxBytes: MOST_BYTES,
        onExceeded: () => aborter.abort(),
      });
      return await capped.json();
    },
  };
}

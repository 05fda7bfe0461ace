/**
 * Trusted keys at a URL: whoever answers there says who may countersign, so the request is a guarded one.
 *
 * 1. No redirect is followed: only the host that the operator named is believed.
 * 2. Time and size are bounded; what may be contacted is for `activities/egress/` to say.
 */
import type { Egress } from '../egress/fetch.ts';
import type { TrustStore } from './port.ts';

const FRESH_MS = 15_000;
const TIMEOUT_MS = 5_000;
const MOST_BYTES = 4_194_304;

export function createTrustUrl(url: string, egress: Egress): TrustStore {
  const { fetch } = egress.outlet({ what: 'trust.jwks', to: [url], maxBytes: MOST_BYTES });
  return {
    name: url,
    freshMs: FRESH_MS,
    read: async (): Promise<unknown> => {
      const response = await fetch(url, {
        headers: { accept: 'application/jwk-set+json, application/json' },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new Error(`answered ${response.status}`);
      }
      return await response.json();
    },
  };
}

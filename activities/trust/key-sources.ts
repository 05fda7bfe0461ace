import { readFile, stat } from 'node:fs/promises';
import type { Egress } from '../egress/fetch.ts';

/**
 * Where the trusted keys stand: a JWK Set (RFC 7517) that the operator writes.
 *
 * 1. `read` gives the document as it is now, or throws. The same object again means that it has not changed.
 */
export interface TrustStore {
  /** For messages: the file or URL as the configuration names it. */
  readonly name: string;
  /** How long a change may go unnoticed, in milliseconds: reading costs something. */
  readonly freshMs: number;
  read(): Promise<unknown>;
}

// Trusted keys in a file, which is read again when it has changed: at once.

/** @param path absolute. @param shown as the configuration names it */
export function createTrustFile(path: string, shown: string): TrustStore {
  let last: { readonly mark: string; readonly document: unknown } | undefined;
  return {
    name: shown,
    freshMs: 0,
    read: async (): Promise<unknown> => {
      const { ino, size, mtimeMs, ctimeMs } = await stat(path);
      const mark = `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
      if (last?.mark !== mark) {
        const document: unknown = JSON.parse(await readFile(path, 'utf8'));
        last = { mark, document };
      }
      return last.document;
    },
  };
}

// Trusted keys at a URL: whoever answers there says who may countersign, so the request is a guarded one.
//
// 1. No redirect is followed: only the host that the operator named is believed.
// 2. Time and size are bounded; what may be contacted is for `activities/egress/` to say.

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

/**
 * Reads the trusted keys from a file or a URL: a JWK Set (RFC 7517) that the operator writes.
 *
 * 1. `read` returns the document as it is now, or throws. The same object again means that the document has not
 *    changed.
 * 2. A file is read again as soon as it has changed.
 * 3. A URL is asked by a guarded request, since its answer says who may countersign. No redirect is followed: only the
 *    host that the operator named is believed. Time and size are bounded; `activities/egress/` decides what may be
 *    contacted.
 */
import { readFile, stat } from 'node:fs/promises';
import type { Egress } from '../egress/fetch.ts';

export interface TrustStore {
  /** The file or URL as the configuration names it, for messages. */
  readonly name: string;
  /** Milliseconds for which a change may go unnoticed, since a read costs something. */
  readonly freshMs: number;
  read(): Promise<unknown>;
}

/** @param path absolute. @param shown the path as the configuration names it */
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

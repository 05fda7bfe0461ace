/**
 * Remembers for a while what tool servers say of tokens that are bound to a key, and makes the key of a token that is
 * requested for one.
 *
 * 1. A server's word changes nothing but `preferred`, and nothing for other servers.
 */
import { LRUCache } from 'lru-cache';
import type { SenderConstrained } from '../../contracts/schemas/credentials.ts';
import { wantsBoundToken } from '../../domain/policy/sender-constraint.ts';
import type { TokenRequest } from './port.ts';
import { ProofKey } from './proof-key.ts';

const MOST_SERVERS = 500;
const KEPT_MS = 3_600_000;

interface Word {
  readonly wanted: boolean;
  readonly declined: boolean;
}

const NOTHING: Word = { wanted: false, declined: false };

export type ServerWords = ReturnType<typeof createServerWords>;

/** @param now milliseconds since the epoch */
export function createServerWords(now: () => number) {
  const words = new LRUCache<string, Word>({ max: MOST_SERVERS, ttl: KEPT_MS, ttlResolution: 0, perf: { now } });
  const said = (serverUrl: string): Word => words.get(serverUrl) ?? NOTHING;
  const keep = (serverUrl: string, word: Partial<Word>): void => {
    words.set(serverUrl, { ...said(serverUrl), ...word });
  };
  return {
    /** Keeps what the server's own metadata say (`takesBoundTokens`). */
    wants(serverUrl: string, wanted: boolean): void {
      if (said(serverUrl).wanted !== wanted) keep(serverUrl, { wanted });
    },
    /** @param algorithms `dpop_signing_alg_values_supported` of the authorization server */
    async keyFor(
      mode: SenderConstrained,
      { serverUrl, declined, byProvider }: TokenRequest,
      algorithms?: unknown,
    ): Promise<ProofKey | undefined> {
      if (byProvider === true && mode !== 'required') return undefined;
      if (declined === true) keep(serverUrl, { declined: true });
      return wantsBoundToken(mode, { ...said(serverUrl), algorithms }) ? await ProofKey.create() : undefined;
    },
  };
}

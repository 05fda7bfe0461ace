/**
 * Remembers how servers speak, so that a call to a modern server costs no extra round trip.
 *
 * 1. Only protocol era, versions, capabilities and the address within the server's origin are kept; nothing of one
 *    principal's data.
 * 2. An entry expires: otherwise a server that was upgraded would be spoken to in the old era for ever.
 */
import type { PriorDiscovery } from '@modelcontextprotocol/client';
import { LRUCache } from 'lru-cache';
import { hashOf } from '../../domain/text/canonical.ts';
import type { ServerConnection } from './port.ts';

const MAX_SERVERS = 500;
const MAX_AGE_MS = 10 * 60_000;
const MAX_BYTES = 16_384;

/** The values with which a session is opened. */
export interface Known {
  readonly prior: PriorDiscovery;
  /** Address of the server after its redirects. */
  readonly at: string;
}

export interface Priors {
  recall(connection: ServerConnection): Known | undefined;
  learn(connection: ServerConnection, session: { readonly learned: PriorDiscovery; readonly at: string }): void;
  forget(connection: ServerConnection): void;
}

/** @param now epoch ms */
export function createPriors(now: () => number = Date.now): Priors {
  const known = new LRUCache<string, { readonly session: Known; readonly since: number }>({ max: MAX_SERVERS });
  return {
    recall(connection) {
      const entry = known.get(keyOf(connection));
      return entry === undefined || now() - entry.since > MAX_AGE_MS ? undefined : entry.session;
    },
    learn(connection, { learned: prior, at }) {
      // A server decides how large its capabilities are.
      if (JSON.stringify(prior).length > MAX_BYTES) return;
      known.set(keyOf(connection), { session: { prior, at }, since: now() });
    },
    forget(connection) {
      known.delete(keyOf(connection));
    },
  };
}

/**
 * Key of a server. A server may answer differently with and without authorization, and by header (a tenant, a feature
 * flag). It has no reason to speak another protocol to the holder of another token, and a token minted for one call
 * never comes again.
 */
function keyOf({ url, protocol, headers, accessToken }: ServerConnection): string {
  return hashOf({ url, protocol, headers, authorized: accessToken !== undefined });
}

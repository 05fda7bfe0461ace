/**
 * Reads metadata of configured issuers (RFC 8414, then OpenID Connect discovery), and keeps it for a while.
 *
 * 1. Only the configured issuer is ever asked. The authorization server that an MCP server names is not followed, since
 *    a client secret would go there.
 * 2. Metadata must name the issuer that was asked (RFC 8414 §3.3).
 */
import {
  type AuthorizationServer,
  allowInsecureRequests,
  customFetch,
  discoveryRequest,
  processDiscoveryResponse,
} from 'oauth4webapi';
import type { Exchange } from './exchange.ts';

const KEPT_MS = 300_000;

export interface AuthorizationServers {
  /** Throws what oauth4webapi throws. */
  metadataOf(issuer: string, exchange: Exchange): Promise<AuthorizationServer>;
  /** Drops the metadata, so that the next request reads it anew: after a refused token the metadata may be stale. */
  forget(issuer: string): void;
}

/** @param now milliseconds since the epoch. */
export function createAuthorizationServers(now: () => number): AuthorizationServers {
  const kept = new Map<string, { readonly metadata: AuthorizationServer; readonly until: number }>();
  return {
    async metadataOf(issuer, exchange) {
      const known = kept.get(issuer);
      if (known !== undefined && now() < known.until) return known.metadata;
      const metadata = await discover(new URL(issuer), exchange);
      kept.set(issuer, { metadata, until: now() + KEPT_MS });
      return metadata;
    },
    forget(issuer) {
      kept.delete(issuer);
    },
  };
}

async function discover(issuer: URL, exchange: Exchange): Promise<AuthorizationServer> {
  const options = {
    [customFetch]: exchange.fetch,
    // The check of the configuration decided whether this issuer may use plain HTTP.
    [allowInsecureRequests]: issuer.protocol === 'http:',
  };
  const oauth = await discoveryRequest(issuer, { ...options, algorithm: 'oauth2' });
  const isElsewhere = oauth.status >= 400 && oauth.status < 500 && oauth.status !== 429 && oauth.status !== 408;
  if (!isElsewhere) return processDiscoveryResponse(issuer, oauth);
  return processDiscoveryResponse(issuer, await discoveryRequest(issuer, { ...options, algorithm: 'oidc' }));
}

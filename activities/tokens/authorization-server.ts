/**
 * Metadata of configured issuers (RFC 8414, then OpenID Connect discovery), kept for a while.
 *
 * Only the configured issuer is ever asked: what an MCP server says of its authorization server is not followed, since a client
 * secret would go there. Metadata must name the issuer that was asked (RFC 8414 §3.3).
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
  /** Asks again next time: after a refused token, the metadata may be what is stale. */
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
    // Whether plain HTTP is allowed for this issuer was decided with the configuration.
    [allowInsecureRequests]: issuer.protocol === 'http:',
  };
  const oauth = await discoveryRequest(issuer, { ...options, algorithm: 'oauth2' });
  const isElsewhere = oauth.status >= 400 && oauth.status < 500 && oauth.status !== 429 && oauth.status !== 408;
  if (!isElsewhere) return processDiscoveryResponse(issuer, oauth);
  return processDiscoveryResponse(issuer, await discoveryRequest(issuer, { ...options, algorithm: 'oidc' }));
}

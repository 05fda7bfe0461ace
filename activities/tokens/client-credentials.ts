/**
 * `client-credentials`: a token of our own for one call, from the configured issuer (RFC 6749 §4.4, RFC 8707).
 *
 * 1. Asked for this server and this tool's scopes only; an answer that is wider is refused, not used (INV-S2).
 * 2. Minted per call and kept nowhere, so that a token is never older than the call, however long its approval took.
 * 3. The client secret goes to the configured issuer's token endpoint and nowhere else.
 */
import {
  type AuthorizationServer,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  allowInsecureRequests,
  clientCredentialsGrantRequest,
  customFetch,
  processClientCredentialsResponse,
} from 'oauth4webapi';
import type { Dispatcher } from 'undici';
import type { Credentials } from '../../contracts/schemas/config.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import type { AuthorizationServers } from './authorization-server.ts';
import { openExchange } from './exchange.ts';
import { type Asked, checkGranted } from './granted.ts';
import { oauthFailure } from './oauth-failure.ts';
import type { MintedToken, TokenRequest } from './port.ts';
import { isSecureTransport } from './secure-transport.ts';
import { type TokenStrategy, tokenError } from './strategy.ts';

export type ClientCredentials = Extract<Credentials, { kind: 'client-credentials' }>;

export interface TokenSource {
  readonly servers: AuthorizationServers;
  readonly dispatcher: Dispatcher;
  /** For discovery and token together. */
  readonly timeoutMs: number;
  readonly allowInsecure: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export function clientCredentialsStrategy(credentials: ClientCredentials, source: TokenSource): TokenStrategy {
  const { issuer, clientId, clientSecret } = credentials;
  const clientSecrets = secretsOfClient(clientId, clientSecret);
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused } = request;
      if (refused !== undefined) source.servers.forget(issuer);
      const asked = askedFor(credentials, request);
      const exchange = openExchange({ ...source, signal: request.signal });
      try {
        const metadata = await source.servers.metadataOf(issuer, exchange);
        checkEndpoint(metadata, { server, issuer, allowInsecure: source.allowInsecure });
        const parameters = new URLSearchParams({ resource: asked.resource });
        if (asked.scopes.length > 0) parameters.set('scope', asked.scopes.join(' '));
        const client = { client_id: clientId };
        const answer = await clientCredentialsGrantRequest(
          metadata,
          client,
          authenticationFor(metadata, clientSecret, server),
          parameters,
          { [customFetch]: exchange.fetch, [allowInsecureRequests]: new URL(issuer).protocol === 'http:' },
        );
        const granted = await processClientCredentialsResponse(metadata, client, answer);
        return checkGranted(granted, asked, {
          strategy: 'client-credentials',
          server,
          issuer,
          clientSecrets,
          refused,
          now: source.now(),
        });
      } catch (error) {
        // What failed may be metadata that no longer hold.
        source.servers.forget(issuer);
        throw oauthFailure(error, { server, issuer, exchange });
      }
    },
  };
}

/** Secrets are not sent in clear, whatever metadata say. */
export function checkEndpoint(
  { token_endpoint: endpoint }: AuthorizationServer,
  {
    server,
    issuer,
    allowInsecure,
  }: { readonly server: string; readonly issuer: string; readonly allowInsecure: boolean },
): void {
  if (endpoint === undefined || !URL.canParse(endpoint) || isSecureTransport(endpoint, allowInsecure)) return;
  const message = `No token for ${server}: its authorization server ${issuer} has a token endpoint without TLS. The client secret was not sent.`;
  throw tokenError('TOKEN_REFUSED', message, { server, issuer });
}

export function askedFor(
  { resource, scopes }: Pick<ClientCredentials, 'resource' | 'scopes'>,
  { serverUrl, tool }: TokenRequest,
): Asked {
  // Own fields only: a tool may be called `constructor`.
  const ofTool = tool !== undefined && Object.hasOwn(scopes.tools, tool) ? scopes.tools[tool] : undefined;
  const asked = tool === undefined ? scopes.discovery : (ofTool ?? scopes.default);
  return { resource: canonicalServerUrl(resource ?? serverUrl), scopes: [...new Set(asked)] };
}

/** RFC 8414 §2: `client_secret_basic` where the server states nothing. */
export function authenticationFor(metadata: AuthorizationServer, clientSecret: string, server: string): ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  if (methods.includes('client_secret_basic')) return ClientSecretBasic(clientSecret);
  if (methods.includes('client_secret_post')) return ClientSecretPost(clientSecret);
  const message = `No token for ${server}: its authorization server takes no client secret (client_secret_basic or client_secret_post).`;
  throw tokenError('TOKEN_REFUSED', message, { server });
}

/**
 * The secret, and the forms in which it travels that a scrubber of the plain secret would not know: form encoding and then
 * base64 of it together with the client id (RFC 6749 §2.3.1), as oauth4webapi writes it, and as others do.
 */
export function secretsOfClient(clientId: string, clientSecret: string): readonly string[] {
  const [id, secret] = [strictFormEncode(clientId), strictFormEncode(clientSecret)];
  const basic = [`${id}:${secret}`, `${clientId}:${clientSecret}`].map((pair) => Buffer.from(pair).toString('base64'));
  return [...new Set([clientSecret, secret, ...basic])];
}

/** Everything but letters and digits as %XX, and space as plus. */
function strictFormEncode(text: string): string {
  return encodeURIComponent(text)
    .replaceAll(/[-_.!~*'()]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

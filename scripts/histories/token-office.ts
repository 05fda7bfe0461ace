/**
 * Serves the authorization server of recorded runs (RFC 8414, RFC 6749 §4.4). It grants every request, and
 * its address never changes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

const METADATA_PATH = '/.well-known/oauth-authorization-server';
const TOKEN_PATH = '/token';

/** A token contains its scope and nothing else; no run keeps it. */
export function hasScope(authorization: string | undefined, scope: string): boolean {
  const token = authorization?.replace('Bearer ', '') ?? '';
  return Buffer.from(token, 'base64url').toString('utf8').split(' ').includes(scope);
}

/**
 * @param body as it was sent
 * @returns true if the request was for this server
 */
export function serveTokens(origin: string, { url }: IncomingMessage, body: string, response: ServerResponse): boolean {
  const json = (fields: object): true => {
    response.setHeader('content-type', 'application/json').setHeader('cache-control', 'no-store');
    response.end(JSON.stringify(fields));
    return true;
  };
  if (url === METADATA_PATH)
    return json({
      issuer: origin,
      token_endpoint: `${origin}${TOKEN_PATH}`,
      response_types_supported: ['code'],
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
    });
  if (url !== TOKEN_PATH) return false;
  const scope = new URLSearchParams(body).get('scope') ?? '';
  return json({
    access_token: Buffer.from(scope).toString('base64url'),
    token_type: 'Bearer',
    expires_in: 60,
    scope,
  });
}

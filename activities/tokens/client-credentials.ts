/**
 * The strategy `client-credentials` obtains a token of our own for one call from the configured issuer (RFC 6749 §4.4,
 * RFC 8707).
 *
 * 1. The token is asked for this server and this tool's scopes only; a wider answer is refused, not used (INV-S2).
 * 2. A token is minted per call and kept nowhere, so that it is never older than the call, however long the approval
 *    took.
 * 3. The client's secret, or what it signs, goes to the configured issuer's endpoints and nowhere else.
 */
import type { ClientCredentials } from '../../contracts/schemas/credentials.ts';
import { askedFor, checkGranted, parametersOf } from './asked.ts';
import { openExchange } from './exchange.ts';
import { ConfiguredClient, type TokenSource } from './oauth-client.ts';
import type { MintedToken, TokenStrategy } from './port.ts';
import { revocable } from './revocation.ts';

export function clientCredentialsStrategy(credentials: ClientCredentials, source: TokenSource): TokenStrategy {
  const client = new ConfiguredClient(credentials, source);
  const { kind: strategy, issuer } = credentials;
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      if (refused !== undefined) client.forget();
      const asked = askedFor(credentials, request);
      const exchange = openExchange({ ...source, signal });
      const parameters = parametersOf(asked);
      const got = await client.token({ server, grantType: 'client_credentials', parameters, exchange });
      const context = { strategy, server, issuer, secrets: got.secrets, refused, now: source.now() };
      const { revoke } = credentials;
      const { answer } = got;
      return revocable({ revoke, client, source, server, answer }, () => checkGranted(answer, asked, context));
    },
  };
}

/**
 * The strategy `token-exchange` exchanges the assertion that the caller sealed into the run for a token for one call
 * (RFC 8693).
 *
 * 1. The subject is the caller and the actor is this service; the token is asked for one server and one tool's scopes
 *    (INV-S2).
 * 2. Neither the assertion nor the actor token reaches the tool server: an issued token that equals one of them is
 *    refused.
 * 3. Assertion, actor token and issued token are secrets (INV-S1).
 */
import type { ClientCredentials, TokenExchange } from '../../contracts/schemas/credentials.ts';
import { askedFor, checkGranted, checkIssuedType, parametersOf } from './asked.ts';
import { EXCHANGE_GRANT, openExchange, TOKEN_TYPES, tokenType } from './exchange.ts';
import { ConfiguredClient, type TokenSource } from './oauth-client.ts';
import type { MintedToken, TokenStrategy } from './port.ts';
import { revocable } from './revocation.ts';
import type { OpenGrant } from './sealed.ts';

export function tokenExchangeStrategy(
  credentials: TokenExchange,
  openGrant: OpenGrant,
  source: TokenSource,
): TokenStrategy {
  const client = new ConfiguredClient(credentials, source);
  const { kind: strategy, issuer, subjectTokenType, actor } = credentials;
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      const subject = await openGrant(request);
      if (refused !== undefined) client.forget();
      const asked = askedFor(credentials, request);
      const exchange = openExchange({ ...source, signal });
      const acting = actor === 'assertion' ? await client.assertion() : undefined;
      const parameters = {
        ...parametersOf(asked),
        subject_token: subject,
        subject_token_type: tokenType(subjectTokenType),
        requested_token_type: TOKEN_TYPES.access_token,
        ...(acting === undefined ? {} : { actor_token: acting, actor_token_type: TOKEN_TYPES.jwt }),
      };
      const got = await client.token({ server, grantType: EXCHANGE_GRANT, parameters, exchange });
      const secrets = [subject, ...(acting === undefined ? [] : [acting]), ...got.secrets];
      const context = { strategy, server, issuer, secrets, refused, now: source.now() };
      const { revoke } = credentials;
      const { answer } = got;
      return revocable({ revoke, client, source, server, answer }, () => {
        checkIssuedType(answer, ['access_token', 'jwt'], context);
        return checkGranted(answer, asked, context);
      });
    },
  };
}

// The strategy `client-credentials` obtains a token of our own for one call from the configured issuer (RFC 6749 §4.4,
// RFC 8707).
//
// 1. The token is asked for this server and this tool's scopes only; a wider answer is refused, not used (INV-S2).
// 2. A token is minted per call and kept nowhere, so that it is never older than the call, however long the approval
//    took.
// 3. The client's secret, or what it signs, goes to the configured issuer's endpoints and nowhere else.

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

/**
 * `enterprise-managed`: the caller's identity provider says by an ID-JAG that this service may act for the caller at one server,
 * and the server's authorization server makes a token of that (draft-ietf-oauth-identity-assertion-authz-grant, RFC 7523 §2.1).
 *
 * 1. The sealed assertion goes to the identity provider only, the ID-JAG to the configured issuer only, and only where it is for
 *    that issuer and no wider than asked (INV-S2).
 * 2. Neither reaches the tool server, and both are secrets (INV-S1).
 */
import type { EnterpriseManaged } from '../../contracts/schemas/credentials.ts';
import { askedFor, parametersOf } from './asked.ts';
import { openExchange } from './exchange.ts';
import { checkGranted } from './granted.ts';
import { checkIdJag } from './id-jag.ts';
import { ConfiguredClient, type TokenSource } from './oauth-client.ts';
import type { MintedToken } from './port.ts';
import { revocable } from './revocation.ts';
import type { OpenGrant } from './sealed.ts';
import type { TokenStrategy } from './strategy.ts';
import { ASSERTION_GRANT, EXCHANGE_GRANT, TOKEN_TYPES, tokenType } from './token-types.ts';

export function enterpriseManagedStrategy(
  credentials: EnterpriseManaged,
  openGrant: OpenGrant,
  source: TokenSource,
): TokenStrategy {
  const { kind: strategy, issuer, clientId, identityProvider, subjectTokenType } = credentials;
  const provider = new ConfiguredClient(identityProvider, source);
  const client = new ConfiguredClient(credentials, source);
  return {
    async mint(request): Promise<MintedToken> {
      const { server, refused, signal } = request;
      const subject = await openGrant(request);
      if (refused !== undefined) for (const each of [provider, client]) each.forget();
      const asked = askedFor(credentials, request);
      const exchange = openExchange({ ...source, signal });
      const wanted = parametersOf(asked);
      const permitted = await provider.token({
        server,
        grantType: EXCHANGE_GRANT,
        parameters: {
          ...wanted,
          audience: issuer,
          subject_token: subject,
          subject_token_type: tokenType(subjectTokenType),
          requested_token_type: TOKEN_TYPES['id-jag'],
        },
        exchange,
      });
      const known = [subject, ...permitted.secrets];
      const assertion = checkIdJag(permitted.answer, asked, {
        server,
        identityProvider: identityProvider.issuer,
        issuer,
        clientId,
        secrets: known,
      });
      const parameters = { ...wanted, assertion };
      const got = await client.token({ server, grantType: ASSERTION_GRANT, parameters, exchange });
      const secrets = [...known, assertion, ...got.secrets];
      const context = { strategy, server, issuer, secrets, refused, now: source.now() };
      const { revoke } = credentials;
      const { answer } = got;
      return revocable({ revoke, client, source, server, answer }, () => checkGranted(answer, asked, context));
    },
  };
}

/**
 * `enterprise-managed`: the caller's identity provider says by an ID-JAG that this service may act for the caller at one server,
 * and the server's authorization server makes a token of that (draft-ietf-oauth-identity-assertion-authz-grant, RFC 7523 §2.1).
 *
 * 1. The sealed assertion goes to the identity provider only, the ID-JAG to the configured issuer only, and only where it is for
 *    that issuer and no wider than asked (INV-S2).
 * 2. Neither reaches the tool server, and both are secrets (INV-S1).
 */
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { TokenEndpointResponse } from 'oauth4webapi';
import type { EnterpriseManaged } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { type Asked, askedFor, checkGranted, parametersOf, sameIssuer } from './asked.ts';
import { scopesIn, type UnverifiedClaims, unverifiedClaims } from './evidence.ts';
import { ASSERTION_GRANT, EXCHANGE_GRANT, ID_JAG_TYPE, openExchange, TOKEN_TYPES, tokenType } from './exchange.ts';
import { ConfiguredClient, type TokenSource } from './oauth-client.ts';
import { type MintedToken, tokenError, type TokenStrategy } from './port.ts';
import { revocable } from './revocation.ts';
import type { OpenGrant } from './sealed.ts';

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

// Is an ID-JAG that an identity provider gave for the authorization server that was named, and no wider than asked? (INV-S2)
//
// Its signature is for that server to verify; its claims are used only to refuse before it is sent anywhere.

export interface IdJagContext {
  readonly server: string;
  /** Whose word it is. */
  readonly identityProvider: string;
  /** For whom it is. */
  readonly issuer: string;
  /** This service at that issuer. */
  readonly clientId: string;
  /** With which it was asked for. */
  readonly secrets: readonly string[];
}

/** The ID-JAG itself. */
function checkIdJag(answer: TokenEndpointResponse, asked: Asked, context: IdJagContext): string {
  const { server, identityProvider, secrets } = context;
  const { access_token: assertion, issued_token_type: issuedType, token_type: type } = answer;
  const claims = unverifiedClaims(assertion);
  const doubt =
    issuedType !== TOKEN_TYPES['id-jag'] || type !== 'n_a' || claims === undefined || !isTyped(assertion)
      ? 'gave something that is no ID-JAG'
      : secrets.includes(assertion)
        ? 'gave back what it was sent'
        : doubtIn(assertion, claims, answer, asked, context);
  if (doubt === undefined) return assertion;
  const message = `No token for ${server}: the identity provider ${identityProvider} ${doubt}. Check servers.${server}.credentials and its policy for this client.`;
  throw tokenError('TOKEN_REFUSED', message, { server, issuer: identityProvider });
}

function doubtIn(
  assertion: string,
  { issuer, audience = [], scopes = [] }: UnverifiedClaims,
  { scope }: TokenEndpointResponse,
  asked: Asked,
  context: IdJagContext,
): string | undefined {
  const { client_id: clientId, resource } = decodeJwt(assertion);
  if (issuer === undefined || !sameIssuer(issuer, context.identityProvider)) return 'gave an ID-JAG of another issuer';
  if (audience.length !== 1 || !audience.every((one) => sameIssuer(one, context.issuer)))
    return 'gave an ID-JAG for another authorization server than the configured one';
  if (clientId !== context.clientId) return 'gave an ID-JAG for another client';
  const resources = resource === undefined ? [] : [resource].flat();
  if (!resources.every((one) => typeof one === 'string' && canonicalServerUrl(one) === asked.resource))
    return 'gave an ID-JAG for another server';
  const granted = [...scopes, ...(scope === undefined ? [] : scopesIn(scope))];
  if (!granted.every((one) => asked.scopes.includes(one))) return 'gave an ID-JAG that is wider than asked';
  return undefined;
}

function isTyped(assertion: string): boolean {
  let typ: unknown;
  try {
    ({ typ } = decodeProtectedHeader(assertion));
  } catch {
    return false;
  }
  return typeof typ === 'string' && typ.toLowerCase().replace(/^application\//, '') === ID_JAG_TYPE;
}

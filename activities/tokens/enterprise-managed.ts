/**
 * The strategy `enterprise-managed` obtains a token in two steps (draft-ietf-oauth-identity-assertion-authz-grant, RFC
 * 7523 §2.1). The caller's identity provider issues an ID-JAG: this service may act for the caller at one server. The
 * server's authorization server exchanges it for a token.
 *
 * 1. The sealed assertion goes to the identity provider only, and the ID-JAG to the configured issuer only. The ID-JAG
 *    is sent only if it is for that issuer and no wider than asked (INV-S2).
 * 2. Its claims are used only to refuse before it is sent; verifying its signature is the work of that issuer.
 * 3. Neither reaches the tool server, and both are secrets (INV-S1).
 */
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { TokenEndpointResponse } from 'oauth4webapi';
import type { EnterpriseManaged } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import {
  type Asked,
  askedFor,
  checkGranted,
  parametersOf,
  sameIssuer,
  scopesIn,
  type UnverifiedClaims,
  unverifiedClaims,
} from './asked.ts';
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

export interface IdJagContext {
  readonly server: string;
  /** The URL of the identity provider that issued it. */
  readonly identityProvider: string;
  /** The authorization server that it is for. */
  readonly issuer: string;
  /** The client id of this service at that issuer. */
  readonly clientId: string;
  /** The secrets with which the ID-JAG was asked for. */
  readonly secrets: readonly string[];
}

/** Returns the ID-JAG of an answer, or throws if it is not for `issuer`, `clientId` and `asked`. */
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

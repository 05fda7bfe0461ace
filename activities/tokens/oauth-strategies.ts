/**
 * The strategies that ask authorization servers for the token of one call: `client-credentials` (RFC 6749 §4.4),
 * `token-exchange` (RFC 8693) and `enterprise-managed` (draft-ietf-oauth-identity-assertion-authz-grant, RFC 7523
 * §2.1).
 *
 * 1. A token is asked for one server and one tool's scopes (RFC 8707); a wider answer is refused, not used (INV-S2). It
 *    is minted per call and kept nowhere, so it is never older than the call.
 * 2. What the caller sealed goes to the configured issuer only, or to the caller's identity provider if there is one.
 *    The ID-JAG that a provider gives goes to the configured issuer only, and only if it is for that issuer and no
 *    wider than asked. Its claims serve to refuse; verifying its signature is the work of that issuer.
 * 3. All of these are secrets (INV-S1). None reaches the tool server: an issued token that equals one is refused.
 * 4. If so configured, a token is ended at its issuer (RFC 7009) when the call is over. Nothing waits for that. What
 *    the issuer was sent is never ended, also if it answers with that: it is its sender's, who may use it elsewhere.
 */
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { TokenEndpointResponse } from 'oauth4webapi';
import type { ClientCredentials, EnterpriseManaged, TokenExchange } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import {
  type Asked,
  askedFor,
  checkGranted,
  checkIssuedType,
  parametersOf,
  sameIssuer,
  scopesIn,
  unverifiedClaims,
} from './asked.ts';
import { ASSERTION_GRANT, type Exchange, EXCHANGE_GRANT, ID_JAG_TYPE, openExchange, TOKEN_TYPES } from './exchange.ts';
import { ConfiguredClient, type TokenHint, type TokenSource } from './oauth-client.ts';
import { tokenError, type TokenRequest, type TokenStrategy } from './port.ts';
import type { OpenGrant } from './sealed.ts';

const REVOCATION_MS = 5_000;

interface Proposal {
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
}

type Propose = (request: TokenRequest, asked: Asked, exchange: Exchange) => Promise<Proposal>;

/** @param clients all that the strategy asks; the first gives the token */
function oauthStrategy(
  credentials: ClientCredentials | TokenExchange | EnterpriseManaged,
  source: TokenSource,
  clients: readonly [ConfiguredClient, ...ConfiguredClient[]],
  propose: Propose,
): TokenStrategy {
  const { revoke, senderConstrained } = credentials;
  const [client] = clients;
  return {
    async mint(request) {
      const { refused, signal } = request;
      if (refused !== undefined) for (const each of clients) each.forget();
      const asked = askedFor(credentials, request);
      const exchange = openExchange({ ...source, signal });
      const { grantType, parameters: own, secrets: known } = await propose(request, asked, exchange);
      const parameters = { ...parametersOf(asked), ...own };
      const ask = { request, grantType, parameters, exchange, senderConstrained };
      const { answer, secrets, key } = await client.token(ask);
      const context = { credentials, request, secrets: [...known, ...secrets], key, now: source.now() };
      const release = (): void => endTokens(client, source, request.server, answer, context.secrets);
      try {
        if (credentials.kind === 'token-exchange') checkIssuedType(answer, ['access_token', 'jwt'], context);
        const minted = checkGranted(answer, asked, context);
        return revoke ? { ...minted, release } : minted;
      } catch (error) {
        if (revoke) release();
        throw error;
      }
    },
  };
}

function endTokens(
  client: ConfiguredClient,
  source: TokenSource,
  server: string,
  { access_token: access, refresh_token: refresh }: TokenEndpointResponse,
  sent: readonly string[],
): void {
  const end = (token: string, hint: TokenHint): void => {
    if (sent.includes(token)) return;
    const exchange = openExchange({ ...source, timeoutMs: REVOCATION_MS, signal: undefined });
    client.revoke(token, hint, server, exchange).catch(() => {
      source.warn('A token was not revoked; it ends by itself.', { server, issuer: client.issuer });
    });
  };
  end(access, 'access_token');
  // Nobody asked for the refresh token and nobody keeps it: it would outlive the access token.
  if (refresh !== undefined) end(refresh, 'refresh_token');
}

export function clientCredentialsStrategy(credentials: ClientCredentials, source: TokenSource): TokenStrategy {
  const proposal: Proposal = { grantType: 'client_credentials', parameters: {}, secrets: [] };
  return oauthStrategy(credentials, source, [new ConfiguredClient(credentials, source)], async () => proposal);
}

/** The subject is the caller, and the actor is this service. */
export function tokenExchangeStrategy(
  credentials: TokenExchange,
  openGrant: OpenGrant,
  source: TokenSource,
): TokenStrategy {
  const client = new ConfiguredClient(credentials, source);
  const { subjectTokenType, actor } = credentials;
  return oauthStrategy(credentials, source, [client], async (request) => {
    const { token: subject } = await openGrant(request);
    const acting = actor === 'assertion' ? await client.assertion() : undefined;
    return {
      grantType: EXCHANGE_GRANT,
      parameters: {
        subject_token: subject,
        subject_token_type: TOKEN_TYPES[subjectTokenType],
        requested_token_type: TOKEN_TYPES.access_token,
        ...(acting === undefined ? {} : { actor_token: acting, actor_token_type: TOKEN_TYPES.jwt }),
      },
      secrets: acting === undefined ? [subject] : [subject, acting],
    };
  });
}

/** The caller's identity provider issues an ID-JAG, which the server's authorization server exchanges for a token. */
export function enterpriseManagedStrategy(
  credentials: EnterpriseManaged,
  openGrant: OpenGrant,
  source: TokenSource,
): TokenStrategy {
  const { issuer, identityProvider, subjectTokenType } = credentials;
  const provider = new ConfiguredClient(identityProvider, source);
  const clients = [new ConfiguredClient(credentials, source), provider] as const;
  return oauthStrategy(credentials, source, clients, async (request, asked, exchange) => {
    const { server } = request;
    const { token: subject } = await openGrant(request);
    const permitted = await provider.token({
      request,
      grantType: EXCHANGE_GRANT,
      parameters: {
        ...parametersOf(asked),
        audience: issuer,
        subject_token: subject,
        subject_token_type: TOKEN_TYPES[subjectTokenType],
        requested_token_type: TOKEN_TYPES['id-jag'],
      },
      exchange,
    });
    const known = [subject, ...permitted.secrets];
    const doubt = doubtIn(permitted.answer, asked, credentials, known);
    if (doubt !== undefined) {
      const message = `No token for ${server}: the identity provider ${provider.issuer} ${doubt}. Check servers.${server}.credentials and its policy for this client.`;
      throw tokenError('TOKEN_REFUSED', message, { server, issuer: provider.issuer });
    }
    const assertion = permitted.answer.access_token;
    return { grantType: ASSERTION_GRANT, parameters: { assertion }, secrets: [...known, assertion] };
  });
}

function doubtIn(
  answer: TokenEndpointResponse,
  asked: Asked,
  credentials: EnterpriseManaged,
  sent: readonly string[],
): string | undefined {
  const { access_token: assertion, issued_token_type: issuedType, token_type: type } = answer;
  const claims = unverifiedClaims(assertion);
  if (issuedType !== TOKEN_TYPES['id-jag'] || type !== 'n_a' || claims === undefined || !isTyped(assertion))
    return 'gave something that is no ID-JAG';
  if (sent.includes(assertion)) return 'gave back what it was sent';
  const { issuer, audience = [], scopes = [] } = claims;
  if (issuer === undefined || !sameIssuer(issuer, credentials.identityProvider.issuer))
    return 'gave an ID-JAG of another issuer';
  if (audience.length !== 1 || !audience.every((one) => sameIssuer(one, credentials.issuer)))
    return 'gave an ID-JAG for another authorization server than the configured one';
  const { client_id: clientId, resource = [] } = decodeJwt(assertion);
  if (clientId !== credentials.clientId) return 'gave an ID-JAG for another client';
  if (![resource].flat().every((one) => typeof one === 'string' && canonicalServerUrl(one) === asked.resource))
    return 'gave an ID-JAG for another server';
  const granted = [...scopes, ...scopesIn(answer.scope ?? '')];
  return granted.every((one) => asked.scopes.includes(one)) ? undefined : 'gave an ID-JAG that is wider than asked';
}

function isTyped(assertion: string): boolean {
  try {
    const { typ } = decodeProtectedHeader(assertion);
    return typ?.toLowerCase().replace(/^application\//, '') === ID_JAG_TYPE;
  } catch {
    return false;
  }
}

/**
 * Is an ID-JAG that an identity provider gave for the authorization server that was named, and no wider than asked? (INV-S2)
 *
 * Its signature is for that server to verify; its claims are used only to refuse before it is sent anywhere.
 */
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { TokenEndpointResponse } from 'oauth4webapi';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import type { Asked } from './asked.ts';
import { type UnverifiedClaims, scopesIn, unverifiedClaims } from './evidence.ts';
import { sameIssuer } from './granted.ts';
import { tokenError } from './strategy.ts';
import { ID_JAG_TYPE, TOKEN_TYPES } from './token-types.ts';

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
export function checkIdJag(answer: TokenEndpointResponse, asked: Asked, context: IdJagContext): string {
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

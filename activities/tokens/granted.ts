/**
 * Is a token that an authorization server gave no wider than what was asked for? (INV-S2)
 *
 * The token's own claims are not verified, and are used only to refuse more than the answer alone would.
 */
import type { TokenEndpointResponse } from 'oauth4webapi';
import { readAuthorization } from '../../contracts/authorization.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import { type UnverifiedClaims, expiry, recordable, scopesIn, unverifiedClaims } from './evidence.ts';
import type { MintedToken } from './port.ts';
import { tokenError } from './strategy.ts';

export interface Asked {
  /** Canonical URI (RFC 8707). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

export interface GrantedContext {
  /** For the record. */
  readonly strategy: string;
  readonly server: string;
  readonly issuer: string;
  readonly clientSecrets: readonly string[];
  readonly refused: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export function checkGranted(answer: TokenEndpointResponse, asked: Asked, context: GrantedContext): MintedToken {
  const { strategy, server, issuer, clientSecrets, refused, now } = context;
  const { access_token: token, refresh_token: refresh, id_token: id } = answer;
  const secrets = [token, refresh, id, ...clientSecrets].filter((secret) => secret !== undefined);
  const refuse = (reason: string, next: string): never => {
    throw tokenError('TOKEN_REFUSED', `No token for ${server}: ${issuer} gave one that ${reason}. ${next}`, {
      server,
      issuer,
    });
  };
  if (answer.token_type !== 'bearer') refuse('is no bearer token', 'Configure its client for bearer tokens.');
  const read = readAuthorization(token);
  if (read.kind === 'refused' || read.token !== token)
    refuse('cannot stand in a header', 'Report this to its operator.');
  if (token === refused) refuse(`${server} has just refused`, `Check what ${server} expects of a token.`);
  const claims = unverifiedClaims(token);
  const granted = answer.scope === undefined ? asked.scopes : scopesIn(answer.scope);
  const wider = [...granted, ...(claims?.scopes ?? [])].filter((scope) => !asked.scopes.includes(scope));
  if (wider.length > 0) {
    const names = wider.flatMap((scope) => Object.values(recordable('scope', scope, secrets))).slice(0, 5);
    refuse(
      `is wider than asked (${names.length === 0 ? 'scopes without a printable name' : names.join(' ')})`,
      `Narrow the client at its issuer, or state these scopes in servers.${server}.credentials.scopes.`,
    );
  }
  const foreign = foreignTo(claims, asked, issuer);
  if (foreign !== undefined) refuse(foreign, `Check issuer and resource in servers.${server}.credentials.`);
  const expiresAtMs = answer.expires_in === undefined ? claims?.expiresAtMs : now + answer.expires_in * 1_000;
  return {
    accessToken: token,
    evidence: {
      strategy,
      issuer,
      ...recordable('jti', claims?.jti, secrets),
      scopes: [...granted],
      ...expiry(expiresAtMs),
    },
    secrets,
  };
}

/** RFC 9068 §2.2: whose token it is and for whom, where it says so. */
function foreignTo(claims: UnverifiedClaims | undefined, asked: Asked, issuer: string): string | undefined {
  if (claims?.issuer !== undefined && new URL(issuer).href !== hrefOf(claims.issuer)) return 'names another issuer';
  const others = claims?.audience?.some((one) => canonicalServerUrl(one) !== asked.resource);
  if (claims?.audience?.length === 0 || others === true)
    return 'is for another resource than the server that was asked for';
  return undefined;
}

function hrefOf(text: string): string {
  return URL.canParse(text) ? new URL(text).href : text;
}

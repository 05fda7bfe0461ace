/**
 * Is a token that an authorization server gave no wider than what was asked for? (INV-S2)
 *
 * The token's own claims are not verified, and are used only to refuse more than the answer alone would.
 */
import type { TokenEndpointResponse } from 'oauth4webapi';
import { readAuthorization } from '../../contracts/authorization.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import { type UnverifiedClaims, expiry, recordable, scopesIn, unverifiedClaims } from './evidence.ts';
import type { Asked } from './asked.ts';
import type { MintedToken } from './port.ts';
import { tokenError } from './strategy.ts';
import { TOKEN_TYPES, type TokenTypeName } from './token-types.ts';

export interface GrantedContext {
  readonly strategy: string;
  readonly server: string;
  readonly issuer: string;
  /** With which it was asked for. */
  readonly secrets: readonly string[];
  readonly refused: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export function checkGranted(answer: TokenEndpointResponse, asked: Asked, context: GrantedContext): MintedToken {
  const { strategy, server, issuer, refused, now } = context;
  const { access_token: token, refresh_token: refresh, id_token: id } = answer;
  const secrets = [token, refresh, id, ...context.secrets].filter((secret) => secret !== undefined);
  const refuse = refusing(context);
  if (answer.token_type !== 'bearer') refuse('is no bearer token', 'Configure its client for bearer tokens.');
  const read = readAuthorization(token);
  if (read.kind === 'refused' || read.token !== token)
    refuse('cannot stand in a header', 'Report this to its operator.');
  // What was shown to the issuer is not for tool servers (no passthrough).
  if (context.secrets.includes(token)) refuse('it was sent itself', 'Report this to its operator.');
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
  // What nobody has named is not known: the issuer's own default, which may be anything.
  const isNamed = asked.scopes.length > 0 || answer.scope !== undefined || claims?.scopes !== undefined;
  const expiresAtMs = answer.expires_in === undefined ? claims?.expiresAtMs : now + answer.expires_in * 1_000;
  return {
    accessToken: token,
    evidence: {
      strategy,
      issuer,
      ...recordable('jti', claims?.jti, secrets),
      ...(isNamed ? { scopes: [...granted] } : {}),
      ...expiry(expiresAtMs),
    },
    secrets,
  };
}

/** RFC 8693 §2.2.1: what kind of token an exchange gave. */
export function checkIssuedType(
  { issued_token_type: type }: TokenEndpointResponse,
  allowed: readonly TokenTypeName[],
  context: GrantedContext,
): void {
  if (allowed.some((name) => TOKEN_TYPES[name] === type)) return;
  refusing(context)('is of another type than an access token', 'Report this to its operator.');
}

function refusing({ server, issuer }: GrantedContext): (reason: string, next: string) => never {
  return (reason, next) => {
    const message = `No token for ${server}: ${issuer} gave one that ${reason}. ${next}`;
    throw tokenError('TOKEN_REFUSED', message, { server, issuer });
  };
}

/** RFC 9068 §2.2: whose token it is and for whom, where it says so. */
function foreignTo(claims: UnverifiedClaims | undefined, asked: Asked, issuer: string): string | undefined {
  if (claims?.issuer !== undefined && !sameIssuer(claims.issuer, issuer)) return 'names another issuer';
  const others = claims?.audience?.some((one) => canonicalServerUrl(one) !== asked.resource);
  if (claims?.audience?.length === 0 || others === true)
    return 'is for another resource than the server that was asked for';
  return undefined;
}

export function sameIssuer(one: string, other: string): boolean {
  return hrefOf(one) === hrefOf(other);
}

function hrefOf(text: string): string {
  return URL.canParse(text) ? new URL(text).href : text;
}

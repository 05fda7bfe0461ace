/**
 * Says what a token is asked for (one server and the scopes of one tool), and checks that the answer is no
 * wider (INV-S2).
 *
 * 1. The token's own claims are not verified; they are used only to refuse more than the answer alone would.
 */
import type { TokenEndpointResponse } from 'oauth4webapi';
import { readAuthorization } from '../../contracts/access-token.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ScopeTemplates } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { expiry, recordable, scopesIn, type UnverifiedClaims, unverifiedClaims } from './evidence.ts';
import { TOKEN_TYPES, type TokenTypeName } from './exchange.ts';
import { type MintedToken, tokenError, type TokenRequest } from './port.ts';

export interface Asked {
  /** Canonical URI (RFC 8707). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

interface Templates {
  readonly resource?: string | undefined;
  readonly scopes: ScopeTemplates;
}

/** @throws CountersignError `TOKEN_REFUSED` if people have consented to a scope that the configuration does not list */
export function askedFor(
  { resource, scopes }: Templates,
  { server, serverUrl, tool, consented = [] }: TokenRequest,
): Asked {
  // The configuration may allow less than when people consented.
  const beyond = consented.find((scope) => !scopes.consentable.includes(scope));
  if (beyond !== undefined || (tool === undefined && consented.length > 0)) {
    const message = `No token for ${server}: people may not consent to a scope of this call (scopes.consentable of its credentials).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  return {
    resource: canonicalServerUrl(resource ?? serverUrl),
    scopes: [...new Set([...scopesFor(scopes, tool), ...consented])],
  };
}

/** Returns the configured scopes, without those that people consent to. */
export function scopesFor(scopes: ScopeTemplates, tool: string | undefined): readonly string[] {
  if (tool === READ_RESOURCE) return scopes.resources ?? [];
  // Only own fields are read: a tool may be called `constructor`.
  const ofTool = tool !== undefined && Object.hasOwn(scopes.tools, tool) ? scopes.tools[tool] : undefined;
  return tool === undefined ? scopes.discovery : (ofTool ?? scopes.default);
}

/** Returns `resource` and `scope` of a token request. */
export function parametersOf({ resource, scopes }: Asked): Readonly<Record<string, string>> {
  return { resource, ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}) };
}

export interface GrantedContext {
  readonly strategy: string;
  readonly server: string;
  readonly issuer: string;
  /** The secrets with which the token was asked for. */
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
  // A token that was shown to the issuer is not for tool servers (no passthrough).
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
  // A scope that nobody has named is unknown: it is the issuer's own default, which may be anything.
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

/** RFC 8693 §2.2.1: checks the type of the token that an exchange gave. */
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

/** RFC 9068 §2.2: says why a token is foreign, if its claims state another issuer or audience. */
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

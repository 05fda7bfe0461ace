/**
 * Says what a token is asked for (one server and the scopes of one tool), checks that the answer is no wider (INV-S2),
 * and makes the evidence that may be recorded of it: where it came from and how long it lasts, never the token.
 *
 * 1. Claims read from the token itself are not verified: we are not its audience. They serve to refuse more than the
 *    answer alone would, and as a note for auditors; so a string that could carry a secret into the history is dropped.
 */
import { decodeJwt } from 'jose';
import type { TokenEndpointResponse } from 'oauth4webapi';
import { z } from 'zod';
import { readAuthorization } from '../../contracts/access-token.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { ScopeTemplates, SenderConstrained } from '../../contracts/schemas/credentials.ts';
import { constraintOf } from '../../domain/policy/sender-constraint.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { createScrubber } from '../scrubbing/scrubber.ts';
import { TOKEN_TYPES, type TokenTypeName } from './exchange.ts';
import { type MintedToken, tokenError, type TokenRequest } from './port.ts';
import type { ProofKey } from './proof-key.ts';
import { ownValue } from '../kit/json.ts';

export interface Asked {
  /** Canonical URI (RFC 8707). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

/** @throws CountersignError `TOKEN_REFUSED` if people have consented to a scope that the configuration does not list */
export function askedFor(
  { resource, scopes }: { readonly resource?: string | undefined; readonly scopes: ScopeTemplates },
  { server, serverUrl, tool, consented = [] }: TokenRequest,
): Asked {
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

export function scopesFor(scopes: ScopeTemplates, tool: string | undefined): readonly string[] {
  if (tool === READ_RESOURCE) return scopes.resources ?? [];
  return tool === undefined ? scopes.discovery : (ownValue(scopes.tools, tool) ?? scopes.default);
}

export function parametersOf({ resource, scopes }: Asked): Readonly<Record<string, string>> {
  return { resource, ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}) };
}

interface GrantedContext {
  readonly credentials: {
    readonly kind: string;
    readonly issuer: string;
    readonly senderConstrained: SenderConstrained;
  };
  readonly request: Pick<TokenRequest, 'server' | 'refused'>;
  readonly secrets: readonly string[];
  readonly key?: ProofKey | undefined;
  readonly now: number;
}

export function checkGranted(answer: TokenEndpointResponse, asked: Asked, context: GrantedContext): MintedToken {
  const { credentials, request, now } = context;
  const { kind: strategy, issuer } = credentials;
  const { server, refused } = request;
  const { access_token: token, refresh_token: refresh, id_token: id } = answer;
  const secrets = [token, refresh, id, ...context.secrets].filter((secret) => secret !== undefined);
  const refuse = refusing(context);
  const read = readAuthorization(token);
  if (read.kind === 'refused' || read.token !== token)
    refuse('cannot stand in a header', 'Report this to its operator.');
  // A token that was shown to the issuer is not for tool servers (no passthrough).
  if (context.secrets.includes(token)) refuse('it was sent itself', 'Report this to its operator.');
  if (token === refused) refuse(`${server} has just refused`, `Check what ${server} expects of a token.`);
  const claims = unverifiedClaims(token);
  const isBound = checkConstraint(answer.token_type, claims, context);
  const granted = answer.scope === undefined ? asked.scopes : scopesIn(answer.scope);
  const wider = [...granted, ...(claims?.scopes ?? [])].filter((scope) => !asked.scopes.includes(scope));
  if (wider.length > 0) {
    refuse(
      `is wider than asked (${namesOf(wider, secrets) || 'scopes without a printable name'})`,
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
    ...(isBound && context.key ? { binding: context.key } : {}),
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

const MOST_NAMED = 5;

/** The first ones stand for all: an answer may hold thousands, and each takes a search for secrets. */
function namesOf(scopes: readonly string[], secrets: readonly string[]): string {
  const named = scopes.slice(0, MOST_NAMED).flatMap((scope) => Object.values(recordable('scope', scope, secrets)));
  return named.join(' ');
}

/** Returns true if the token is bound to the key of the call, and false if it is a bearer token that may be used. */
function checkConstraint(type: string, claims: UnverifiedClaims | undefined, context: GrantedContext): boolean {
  const {
    credentials: { issuer, senderConstrained },
    request: { server },
    key,
  } = context;
  const unbound = (reason: string, next: string): never => {
    const message = `No token for ${server}: ${issuer} gave one that ${reason}. Nothing was sent to ${server}. ${next}`;
    throw tokenError('TOKEN_UNBOUND', message, { server, issuer });
  };
  switch (constraintOf(senderConstrained, key?.thumbprint, { type, key: claims && (claims.boundTo ?? '') })) {
    case 'bound':
      return true;
    case 'bearer':
      return false;
    case 'unbound':
      return unbound(
        'anybody could use who reads it, and senderConstrained: required forbids that',
        'Have its client given tokens that are bound to a key (DPoP, RFC 9449).',
      );
    case 'foreign-key':
      return unbound('is not bound to the key of this call (cnf.jkt, RFC 9449 §6.1)', 'Report this to its operator.');
    case 'unknown-type':
      return refusing(context)('is no bearer token', 'Configure its client for bearer tokens.');
  }
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

function refusing({ credentials, request }: GrantedContext): (reason: string, next: string) => never {
  const { issuer } = credentials;
  const { server } = request;
  return (reason, next) => {
    const message = `No token for ${server}: ${issuer} gave one that ${reason}. ${next}`;
    throw tokenError('TOKEN_REFUSED', message, { server, issuer });
  };
}

/** RFC 9068 §2.2: says why a token is foreign, if its claims state another issuer or audience. */
function foreignTo(claims: UnverifiedClaims | undefined, asked: Asked, issuer: string): string | undefined {
  if (claims?.issuer !== undefined && !sameIssuer(claims.issuer, issuer)) return 'names another issuer';
  const isAsked = (one: string): boolean => canonicalServerUrl(one) === asked.resource;
  const { audience } = claims ?? {};
  const isOurs = audience === undefined || (audience.length > 0 && audience.every(isAsked));
  return isOurs ? undefined : 'is for another resource than the server that was asked for';
}

export function sameIssuer(one: string, other: string): boolean {
  return hrefOf(one) === hrefOf(other);
}

function hrefOf(text: string): string {
  return URL.canParse(text) ? new URL(text).href : text;
}

const text = z.string().optional().catch(undefined);
/** A text with one or several values, or a list, of which only texts count. */
const texts = (valuesIn: (value: string) => readonly string[]) =>
  z
    .union([z.string().transform(valuesIn), z.array(z.unknown()).transform(stringsIn)])
    .optional()
    .catch(undefined);

/** Claims of a JWT access token (RFC 9068 §2.2); one of another type counts as absent. */
const Claims = z.object({
  iss: text,
  jti: text,
  aud: texts((one) => [one]),
  scope: texts(scopesIn),
  // Issuers older than RFC 9068 write `scp`.
  scp: texts(scopesIn),
  exp: z.number().optional().catch(undefined),
  // RFC 9449 §6.1.
  cnf: z.object({ jkt: text }).optional().catch(undefined),
});

export type UnverifiedClaims = NonNullable<ReturnType<typeof unverifiedClaims>>;

export function unverifiedClaims(token: string) {
  try {
    const { iss, jti, aud, scope, scp, exp, cnf } = Claims.parse(decodeJwt(token));
    const expiresAtMs = exp === undefined ? undefined : exp * 1_000;
    return { issuer: iss, jti, audience: aud, scopes: scope ?? scp, expiresAtMs, boundTo: cnf?.jkt };
  } catch {
    return undefined;
  }
}

/** RFC 6749 §3.3. */
export function scopesIn(scope: string): string[] {
  return scope.split(' ').filter((one) => one !== '');
}

function stringsIn(list: readonly unknown[]): readonly string[] {
  return list.filter((one) => typeof one === 'string');
}

export function unverifiedEvidence(strategy: string, token: string, secrets: readonly string[]): TokenEvidence {
  const claims = unverifiedClaims(token);
  return {
    strategy,
    ...recordable('issuer', claims?.issuer, secrets),
    ...recordable('jti', claims?.jti, secrets),
    ...expiry(claims?.expiresAtMs),
  };
}

/** Returns the field if its value is short, printable and holds no secret in any form that is scrubbed. */
function recordable<Field extends string>(
  field: Field,
  value: string | undefined,
  secrets: readonly string[],
): Partial<Record<Field, string>> {
  if (value === undefined || !/^[\x21-\x7e]{1,256}$/.test(value)) return {};
  if (createScrubber(secrets).text(value) !== value) return {};
  // Sound: the object has exactly this one field; TypeScript widens computed names to string.
  return { [field]: value } as Record<Field, string>;
}

export function expiry(atMs: number | undefined): { expiresAt?: string } {
  if (atMs === undefined) return {};
  const date = new Date(atMs);
  return Number.isNaN(date.valueOf()) ? {} : { expiresAt: date.toISOString() };
}

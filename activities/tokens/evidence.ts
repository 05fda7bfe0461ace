/**
 * Makes the evidence that may be recorded of a token: where it came from and how long it lasts, never the
 * token.
 *
 * Claims read from the token itself are not verified: we are not its audience and have no right to believe them. They
 * serve to refuse more, and as a note for auditors; so a string that could carry a secret into the history is dropped.
 */
import { decodeJwt } from 'jose';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import { createScrubber } from '../kit/scrubber.ts';

/** Claims of a JWT access token (RFC 9068 §2.2) that have the right type. */
export interface UnverifiedClaims {
  readonly issuer?: string;
  readonly jti?: string;
  readonly audience?: readonly string[];
  readonly scopes?: readonly string[];
  /** Milliseconds since the epoch. */
  readonly expiresAtMs?: number;
}

/** Returns undefined if the token is no JWT. */
export function unverifiedClaims(token: string): UnverifiedClaims | undefined {
  let claims: Readonly<Record<string, unknown>>;
  try {
    claims = decodeJwt(token);
  } catch {
    return undefined;
  }
  const { iss, jti, aud, exp } = claims;
  // Issuers older than RFC 9068 write `scp`, as text or as a list.
  const scope = claims['scope'] ?? claims['scp'];
  const scopes = typeof scope === 'string' ? scopesIn(scope) : stringsIn(scope);
  const audience = typeof aud === 'string' ? [aud] : stringsIn(aud);
  return {
    ...(typeof iss === 'string' ? { issuer: iss } : {}),
    ...(typeof jti === 'string' ? { jti } : {}),
    ...(audience === undefined ? {} : { audience }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(typeof exp === 'number' ? { expiresAtMs: exp * 1_000 } : {}),
  };
}

/** RFC 6749 §3.3: scope tokens separated by spaces. */
export function scopesIn(scope: string): string[] {
  return scope.split(' ').filter((one) => one !== '');
}

function stringsIn(list: unknown): string[] | undefined {
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : undefined;
}

/** Makes evidence of a token from the token's own claims alone. */
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
export function recordable<Field extends string>(
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

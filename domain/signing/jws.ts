/**
 * Reads compact JWS (RFC 7515 §3.1) in one narrow form: one algorithm, one type, a key that is only named.
 *
 * 1. The header holds `alg`, `kid` and `typ`, and nothing else. Other fields (`crit`, `jwk`, `x5u`, `b64`, another
 *    `alg`) were never reviewed, and a key that a message brings along proves nothing.
 * 2. Verification is synchronous, pure and strict (RFC 8032 §5.1.7), since the update validator calls it.
 */
import { hashes, verify } from '@noble/ed25519';
import { sha512 } from '@noble/hashes/sha2.js';
import { utf8ToBytes } from '@noble/hashes/utils.js';
import { SIGNING } from '../../contracts/crypto.ts';
import { defined } from '../../contracts/defined.ts';
import type { SignatureEvidence, TrustedJwk, TrustedKey } from '../../contracts/schemas/trust.ts';
import { type Fields, isFields } from '../shapes/inputs.ts';
import { fromBase64url, sha256Hex, utf8Text } from '../text/canonical.ts';

// The library has no synchronous hash of its own. Always the same function: no state (INV-D1).
hashes.sha512 = sha512;

export interface Jws {
  readonly kid: string;
  /** Any JSON object, not checked yet. */
  readonly claims: Fields;
  /** The bytes that the signature covers. */
  readonly signed: Uint8Array;
  readonly signature: Uint8Array;
}

export type ReadJws = { readonly kind: 'read'; readonly jws: Jws } | { readonly kind: 'bad'; readonly reason: string };

export function readJws(text: string): ReadJws {
  if (text.length > SIGNING.longest) return bad(`is longer than ${SIGNING.longest} characters`);
  const parts = text.split('.');
  // Sound: a missing part is rejected in the next lines.
  const [header, payload, end] = parts as [string, string, string];
  const signature = parts.length === 3 ? fromBase64url(end) : undefined;
  if (signature?.length !== 64) return bad('is no compact JWS with an Ed25519 signature');
  const stated = objectIn(header);
  const claims = objectIn(payload);
  if (stated === undefined || claims === undefined) return bad('has a header or claims that are no JSON object');
  const { alg, kid, typ, ...other } = stated;
  if (alg !== SIGNING.alg || typ !== SIGNING.typ || typeof kid !== 'string' || Object.keys(other).length > 0)
    return bad(`must have the header {"alg":"${SIGNING.alg}","kid":…,"typ":"${SIGNING.typ}"} and nothing else in it`);
  return { kind: 'read', jws: { kid, claims, signed: utf8ToBytes(`${header}.${payload}`), signature } };
}

/** @param x public key, 32 bytes in base64url */
export function isSignedBy({ signed, signature }: Jws, x: string): boolean {
  const key = fromBase64url(x);
  // `verify` rejects bytes that are no point of the curve, and points of small order.
  return key?.length === 32 && verify(signature, signed, key, { zip215: false });
}

/** Returns a text claim of a signature. Not trusted: the signed fields are compared later. */
export function claimOf(signature: string, name: string): string | undefined {
  const claim = claimsOf(signature)[name];
  return typeof claim === 'string' ? claim : undefined;
}

function claimsOf(signature: string): Fields {
  const read = readJws(signature);
  return read.kind === 'read' ? read.jws.claims : {};
}

/**
 * True if a verified signature was valid at that time; false if its claims state no validity.
 * @param seconds since the epoch
 * @param grace seconds by which the message may be late
 */
export function wasGoodAt(signature: string, seconds: number, grace = 0): boolean {
  const claims = claimsOf(signature);
  return seconds >= Number(claims['iat']) - SIGNING.skew && seconds < Number(claims['exp']) + grace;
}

export function signatureEvidence(signature: string): SignatureEvidence {
  const read = readJws(signature);
  const { kid, claims } = read.kind === 'read' ? read.jws : { kid: '', claims: {} as Fields };
  return { kid, jti: String(claims['jti']), iss: String(claims['iss']), sha256: sha256Hex(signature) };
}

function objectIn(part: string): Fields | undefined {
  const bytes = fromBase64url(part);
  const text = bytes === undefined ? undefined : utf8Text(bytes);
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function bad(reason: string): ReadJws {
  return { kind: 'bad', reason };
}

export function trustedKeysFor(jwks: readonly TrustedJwk[], tenant: string): TrustedKey[] {
  return jwks.filter(({ countersign }) => countersign.tenants.includes(tenant)).map(compact);
}

/** Returns the path of a repeated key: one key must count once, under one name. */
export function doubledIn(jwks: readonly TrustedJwk[]): string | undefined {
  for (const field of ['kid', 'x'] as const) {
    const seen = new Set<string>();
    for (const [index, key] of jwks.entries()) {
      if (seen.has(key[field])) return `keys[${index}].${field}`;
      seen.add(key[field]);
    }
  }
  return undefined;
}

function compact({ kid, x, countersign }: TrustedJwk): TrustedKey {
  const { iss, groups, holder, retired } = countersign;
  return {
    kid,
    x,
    iss,
    groups,
    ...(countersign.kind === 'person' ? { sub: countersign.sub } : {}),
    ...(countersign.kind === 'service' && countersign.speaksForMany === true ? { speaksForMany: true } : {}),
    ...defined({ holder }),
    ...(retired === undefined ? {} : { retired: Math.floor(Date.parse(retired) / 1_000) }),
  };
}

/**
 * Decides whether a token is requested for a key of its call (DPoP, RFC 9449), whether the answer is what the operator
 * wants, and whether a refused request may be sent again.
 *
 * 1. `required` never leads to a bearer token.
 * 2. A request is sent again only if its answer proves that it was not acted on.
 */
import type { SenderConstrained } from '../../contracts/schemas/credentials.ts';

export const PROOF_ALGORITHM = 'ES256';

/** What is known of those who would have to take a bound token. Servers wrote it: it is read without trust. */
export interface ConstraintFacts {
  /** `dpop_signing_alg_values_supported` of the authorization server (RFC 9449 §5.1). */
  readonly algorithms?: unknown;
  /** The tool server says that it takes bound tokens (`takesBoundTokens`). */
  readonly wanted: boolean;
  /** The tool server has refused a bound token, and offered no way to show one. */
  readonly declined: boolean;
}

export function wantsBoundToken(mode: SenderConstrained, { algorithms, wanted, declined }: ConstraintFacts): boolean {
  if (mode !== 'preferred') return mode === 'required';
  return wanted || (!declined && isAmong(algorithms));
}

function isAmong(algorithms: unknown): boolean {
  return Array.isArray(algorithms) && algorithms.includes(PROOF_ALGORITHM);
}

/** Reads a tool server's own metadata (RFC 9728 §2): it requires bound tokens, or can verify our proofs. */
export function takesBoundTokens(metadata: Readonly<Record<string, unknown>>): boolean {
  return (
    metadata['dpop_bound_access_tokens_required'] === true || isAmong(metadata['dpop_signing_alg_values_supported'])
  );
}

export interface GivenToken {
  /** `token_type` in lower case. */
  readonly type: string;
  /** `cnf.jkt` of the token (RFC 9449 §6.1): empty if it names no key, undefined if the token cannot be read. */
  readonly key: string | undefined;
}

/** `unbound`: anybody could use it, and the operator forbids that. `foreign-key`: it is of no use to us. */
export type Constraint = 'bound' | 'bearer' | 'unbound' | 'foreign-key' | 'unknown-type';

/** @param ours thumbprint of the key for which the token was requested, if it was */
export function constraintOf(mode: SenderConstrained, ours: string | undefined, { type, key }: GivenToken): Constraint {
  if (type === 'bearer') return mode === 'required' ? 'unbound' : 'bearer';
  if (type !== 'dpop' || ours === undefined) return 'unknown-type';
  return key === undefined || key === ours ? 'bound' : 'foreign-key';
}

/** A challenge of `WWW-Authenticate` (RFC 9110 §11.6.1), with its names in lower case. */
export interface Challenge {
  readonly scheme: string;
  readonly parameters: { readonly error?: string | undefined };
}

export interface Refusing {
  readonly status: number;
  readonly challenges: readonly Challenge[];
  /** `DPoP-Nonce` of the answer. */
  readonly nonce: string | null;
}

/** True if the server wants its nonce, and gave one (RFC 9449 §9). With another status than 401 it may have acted. */
export function asksForNonce({ status, challenges, nonce }: Refusing): boolean {
  const isAsked = challenges.some(
    ({ scheme, parameters }) => scheme === 'dpop' && parameters.error === 'use_dpop_nonce',
  );
  return status === 401 && isAsked && nonce !== null && nonce !== '';
}

/** True if the server refused the token, and offers no way to show a bound one (RFC 9449 §7.1). */
export function declinesProofs({ status, challenges }: Refusing): boolean {
  return status === 401 && !challenges.some(({ scheme }) => scheme === 'dpop');
}

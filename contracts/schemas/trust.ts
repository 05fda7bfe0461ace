/** Trust mode `signed` believes keys, each for the assertions that the operator lists. */
import { z } from 'zod';
import { CodecKey, Identifier, Instant, Name, people, Sha256Hex } from './json.ts';

/** A signature counts for no other purpose. `start` is for the run spec; others are named like their updates. */
export const SignedPurpose = z.enum([
  'start',
  'decide',
  'say',
  'stop',
  'forget',
  'resolveOutcome',
  'provideInput',
  'authorize',
  'catalog.connect',
  'catalog.refresh',
  'catalog.setToolPolicies',
  'catalog.disconnect',
  'catalog.decide',
]);
export type SignedPurpose = z.infer<typeof SignedPurpose>;
export type CatalogPurpose = Extract<SignedPurpose, `catalog.${string}`>;

const seconds = z.int().min(0).max(9_999_999_999);
const place = z.string().min(1).max(1_000);

/** Claims of a signature: its purpose, its signer, and the message. */
export const SignedClaims = z.strictObject({
  purpose: SignedPurpose,
  namespace: place,
  tenant: Identifier,
  workflowId: place,
  /** Temporal run; absent for a spec, which is signed before there is a run. */
  runId: z.string().min(1).max(200).optional(),
  /** sha256 over the canonical JSON of the message without its signature. */
  payload: Sha256Hex,
  /** Seconds since the epoch (RFC 7519 NumericDate). */
  iat: seconds,
  exp: seconds,
  jti: Identifier,
  iss: Identifier,
  sub: Identifier,
  groups: z.array(Identifier).max(100),
});
export type SignedClaims = z.infer<typeof SignedClaims>;

/** The ledger's record of a verified signature; `sha256` is of the JWS. */
export const SignatureEvidence = z.strictObject({
  kid: z.string(),
  jti: z.string(),
  iss: z.string(),
  sha256: Sha256Hex,
});
export type SignatureEvidence = z.infer<typeof SignatureEvidence>;

/** The authority that vouches for people: a person is `issuer|subject`, so an issuer holds no bar. */
export const Issuer = Identifier.regex(/^[^|]+$/, 'must not hold a | (a person is issuer|subject)').max(120);

const asserted = {
  iss: Issuer,
  /** Groups that the key may claim. */
  groups: people.groups,
  tenants: z.array(Identifier).min(1).max(100).default(['default']),
  /** Holder of several keys, which together fill no quorum. Default: the key id. */
  holder: Name.optional(),
  /** When the key was replaced, without having been lost: earlier signatures still count, later ones do not. */
  retired: Instant.optional(),
};

export const Assertion = z.discriminatedUnion('kind', [
  /** Speaks for one approver only. */
  z.strictObject({ kind: z.literal('person'), sub: Identifier, ...asserted }),
  /** Speaks for anybody of its issuer: a backend that authenticates people. */
  z.strictObject({
    kind: z.literal('service'),
    ...asserted,
    /** Lets several people agree to one request through this key. Without it, one key counts once. */
    speaksForMany: z.literal(true).optional(),
  }),
]);
export type Assertion = z.infer<typeof Assertion>;

/** A JSON Web Key (RFC 8037 §2) with what it may assert; unknown members, such as a private `d`, are refused. */
export const TrustedJwk = z.strictObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/, 'must be 32 bytes in base64url'),
  kid: Name,
  alg: z.enum(['EdDSA', 'Ed25519']).optional(),
  use: z.literal('sig').optional(),
  countersign: Assertion,
});
export type TrustedJwk = z.infer<typeof TrustedJwk>;

/** A JWK Set (RFC 7517 §5). */
export const TrustedJwks = z.strictObject({ keys: z.array(TrustedJwk).max(10_000) });

/** Senders of updates that are no decisions. */
export const Senders = z.strictObject({
  /** True if the run's initiator may send. */
  initiator: z.boolean().default(true),
  ...people,
});
export type Senders = z.infer<typeof Senders>;

export const TrustConfig = z.discriminatedUnion('mode', [
  /** Believes every sender who may write to the namespace. */
  z.strictObject({ mode: z.literal('temporal') }),
  z.strictObject({
    mode: z.literal('signed'),
    /** A file, relative to the configuration, or an https URL. */
    jwks: z
      .string()
      .min(1)
      .max(2_048)
      .refine((jwks) => !isTrustUrl(jwks) || z.url().safeParse(jwks).success, 'must be a file or an https URL'),
    may: z.strictObject({ say: Senders.prefault({}), stop: Senders.prefault({}) }).prefault({}),
    /** Seconds after which a run reads the keys anew before it takes a message. */
    maxAgeSeconds: z.int().min(10).max(86_400).default(900),
    /** Keys that prove what workers write for runs and catalogs; workers of every role have them, and nobody else. */
    zone: z.strictObject({ keys: z.array(CodecKey).max(10).default([]) }).prefault({}),
  }),
]);
export type TrustConfig = z.infer<typeof TrustConfig>;

/** A key as a run holds it; keys of other tenants are left out. */
export interface TrustedKey {
  readonly kid: string;
  readonly x: string;
  readonly iss: string;
  /** Absent: anybody of the issuer. */
  readonly sub?: string;
  readonly groups: readonly string[];
  readonly speaksForMany?: true;
  readonly holder?: string;
  /** Seconds since the epoch. */
  readonly retired?: number;
}

/** The trust of a run in mode `signed`, given when the run is prepared and whenever it asks anew. */
export interface TrustSet {
  readonly keys: readonly TrustedKey[];
  readonly may: { readonly say: Senders; readonly stop: Senders };
  readonly maxAgeSeconds: number;
}

/** The part that a catalog holds; `catalog.administrators` says who may send what. */
export type CatalogTrust = Pick<TrustSet, 'keys' | 'maxAgeSeconds'>;

export function isTrustUrl(jwks: string): boolean {
  return /^https?:\/\//i.test(jwks);
}

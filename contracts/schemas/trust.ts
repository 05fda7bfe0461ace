/** Who is believed in trust mode `signed`: keys, and what each of them may assert. */
import { z } from 'zod';
import { CodecKey } from './codec-key.ts';
import { Identifier, Instant, Name, Sha256Hex } from './json.ts';

/** What a signature is for; one for another purpose is none. `start` is of the run spec, the others are named like their updates. */
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
/** Those of catalogs. */
export type CatalogPurpose = Extract<SignedPurpose, `catalog.${string}`>;

const seconds = z.int().min(0).max(9_999_999_999);
const place = z.string().min(1).max(1_000);

/** Claims of a signature: what it is for, who says it, and of which message. */
export const SignedClaims = z.strictObject({
  purpose: SignedPurpose,
  namespace: place,
  tenant: Identifier,
  workflowId: place,
  /** Temporal run; none for a spec, which is signed before there is one. */
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

/** What the ledger keeps of a signature that was found good: the hash is of the JWS. */
export const SignatureEvidence = z.strictObject({
  kid: z.string(),
  jti: z.string(),
  iss: z.string(),
  sha256: Sha256Hex,
});
export type SignatureEvidence = z.infer<typeof SignatureEvidence>;

/** Whoever vouches for people: a person is `issuer|subject`, so an issuer holds no bar. */
export const Issuer = Identifier.regex(/^[^|]+$/, 'must not hold a | (a person is issuer|subject)').max(120);

const asserted = {
  iss: Issuer,
  /** Groups that it may claim. */
  groups: z.array(Identifier).max(100).default([]),
  tenants: z.array(Identifier).min(1).max(100).default(['default']),
  /** Who holds the key, where that is more than this key: keys of one holder fill no quorum between them. Default: the key id. */
  holder: Name.optional(),
  /** It was replaced then, and not lost: what it signed before counts on, and nothing after. */
  retired: Instant.optional(),
};

/** What a key may assert. */
export const Assertion = z.discriminatedUnion('kind', [
  /** One approver, and nobody else. */
  z.strictObject({ kind: z.literal('person'), sub: Identifier, ...asserted }),
  /** Anybody of its issuer: a backend that has checked who is at the other end. */
  z.strictObject({
    kind: z.literal('service'),
    ...asserted,
    /** Several people may agree to one request through this key. Without it, one key is one voice. */
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
export type TrustedJwks = z.infer<typeof TrustedJwks>;

/** Who may send an update that is no decision. */
export const Senders = z.strictObject({
  /** Whoever started the run. */
  initiator: z.boolean().default(true),
  ids: z.array(Identifier).max(100).default([]),
  groups: z.array(Identifier).max(100).default([]),
});
export type Senders = z.infer<typeof Senders>;

export const TrustConfig = z.discriminatedUnion('mode', [
  /** Whoever may write to the namespace is who they say they are. */
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
    /** A run that has not read the keys for so long reads them anew before it takes a message. */
    maxAgeSeconds: z.int().min(10).max(86_400).default(900),
    /** What workers write for runs and catalogs is proven by these; workers of every role have them, and nobody else. */
    zone: z.strictObject({ keys: z.array(CodecKey).max(10).default([]) }).prefault({}),
  }),
]);
export type TrustConfig = z.infer<typeof TrustConfig>;

/** A key as a run holds it; those of other tenants are left out. */
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

/** What a run in trust mode `signed` is given when it is prepared, and when it asks anew. */
export interface TrustSet {
  readonly keys: readonly TrustedKey[];
  readonly may: { readonly say: Senders; readonly stop: Senders };
  readonly maxAgeSeconds: number;
}

/** What a catalog holds of it: who may send what is a matter of `catalog.administrators`. */
export type CatalogTrust = Pick<TrustSet, 'keys' | 'maxAgeSeconds'>;

/** Else it is a file. */
export function isTrustUrl(jwks: string): boolean {
  return /^https?:\/\//i.test(jwks);
}

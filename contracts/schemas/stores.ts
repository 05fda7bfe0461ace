/** Stores of artifacts and secrets: a directory that workers share, a bucket of an S3-compatible store, a vault. */
import { z } from 'zod';
import { HttpUrl, Identifier, Instant, Secret } from './json.ts';

const SEGMENT = '(?!\\.{1,2}(?:/|$))[A-Za-z0-9_.-]+';

/** One bucket, addressed by path: `<endpoint>/<bucket>/<prefix>/ab/cd/<sha256>`. */
export const BucketConfig = z.strictObject({
  /** Over TLS, or in clear to this machine only. */
  endpoint: HttpUrl,
  /** Region for the signature; stores without regions take any. */
  region: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,63}$/)
    .default('us-east-1'),
  bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket (3 to 63 of a-z 0-9 . -)'),
  /** Folder in the bucket, for a bucket that holds other things too. */
  prefix: z
    .string()
    .max(256)
    .regex(new RegExp(`^${SEGMENT}(?:/${SEGMENT})*$`), 'must be names joined by /, of A-Z a-z 0-9 _ . -')
    .optional(),
  accessKeyId: z.string().regex(/^[\x21-\x7e]{1,128}$/),
  secretAccessKey: Secret,
  sessionToken: Secret.optional(),
  /** Time limit of one request; a request that may succeed later is sent three times. */
  timeoutSeconds: z.int().min(1).max(60).default(10),
});
export type BucketConfig = z.infer<typeof BucketConfig>;
/** The input, without the fields that have defaults. */
export type BucketInput = z.input<typeof BucketConfig>;

/** Relative to the folder of the configuration. */
export const DEFAULT_ARTIFACTS = '.countersign/artifacts';

export const ArtifactsConfig = z.strictObject({
  /** Relative to the configuration file, shared by all workers; not used with a bucket. */
  directory: z.string().min(1).default(DEFAULT_ARTIFACTS),
  s3: BucketConfig.optional(),
  /** Days after the last write at which an artifact may be deleted if no run needs it: docs/operations/artifacts.md. */
  retentionDays: z.int().min(1).max(36_500).optional(),
});
export type ArtifactsConfig = z.infer<typeof ArtifactsConfig>;

/** Folder beside the marker of a directory store: one file `<id>.json` for each namespace that uses it. */
export const STORE_NAMESPACES = '.countersign-namespaces';

export const StoreNamespace = z.strictObject({
  name: z.string().min(1).max(1_000),
  /** Id given by the Temporal service: a namespace of the same name at another service has another id. */
  id: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
});
export type StoreNamespace = z.infer<typeof StoreNamespace>;

// A vault entry is a secret that outlives the call, with the runs that may use it and its server.

/** Never logged, never part of an error. */
const Token = z
  .string()
  .max(8192)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces');

export const VaultSecret = z.discriminatedUnion('kind', [
  /** A long-lived access token, used as it is (`credentials: given`). */
  z.strictObject({ kind: z.literal('token'), token: Token }),
  /** A refresh token, exchanged for an access token of one call (`credentials: refresh`) at this issuer only. */
  z.strictObject({ kind: z.literal('refresh-token'), token: Token, issuer: HttpUrl }),
]);
export type VaultSecret = z.infer<typeof VaultSecret>;

/** Whose runs may name the entry, and its server: the starter of a run chooses a reference, not its owner. */
export const VaultBinding = z.strictObject({
  tenant: Identifier.default('default'),
  initiators: z.array(Identifier).min(1).max(100),
  /** Canonical server URL (RFC 8707 resource). */
  server: HttpUrl,
});

/** A refresh token is in use. Until `until` its worker may write the replacement; after that it is lost. */
export const Renewal = z.strictObject({ id: Identifier, since: Instant, until: Instant });

export const VaultEntry = z.strictObject({
  secret: VaultSecret,
  bound: VaultBinding,
  storedAt: Instant,
  expiresAt: Instant.optional(),
  renewal: Renewal.optional(),
  /** Time at which the issuer refused the grant for good. */
  refusedAt: Instant.optional(),
});
export type VaultEntry = z.infer<typeof VaultEntry>;

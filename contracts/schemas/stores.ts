/** Where artifacts are kept: a directory that workers share, or a bucket of an S3-compatible store. */
import { z } from 'zod';
import { Identifier, Instant } from './json.ts';

const SEGMENT = '(?!\\.{1,2}(?:/|$))[A-Za-z0-9_.-]+';

/** One bucket, addressed by path: `<endpoint>/<bucket>/<prefix>/ab/cd/<sha256>`. */
export const BucketConfig = z.strictObject({
  /** Over TLS, save to this machine. */
  endpoint: z.url({ protocol: /^https?$/ }),
  /** As it is signed for; stores that have no regions take any. */
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
  secretAccessKey: z.string().min(1),
  /** Of credentials that end. */
  sessionToken: z.string().min(1).optional(),
  /** Of one request; one that may pass is sent three times. */
  timeoutSeconds: z.int().min(1).max(60).default(10),
});
export type BucketConfig = z.infer<typeof BucketConfig>;
/** As it may be written, without what has a default. */
export type BucketInput = z.input<typeof BucketConfig>;

/** In the folder of the configuration. */
export const DEFAULT_ARTIFACTS = '.countersign/artifacts';

export const ArtifactsConfig = z.strictObject({
  /** Relative to the configuration file, shared by all workers; not read where there is a bucket. */
  directory: z.string().min(1).default(DEFAULT_ARTIFACTS),
  s3: BucketConfig.optional(),
  /** An artifact that nobody has put for so long may be deleted, where no run needs it: docs/operations/artifacts.md. */
  retentionDays: z.int().min(1).max(36_500).optional(),
});
export type ArtifactsConfig = z.infer<typeof ArtifactsConfig>;

/** Folder beside the marker of a directory store: who keeps artifacts in it, one file `<id>.json` for each namespace. */
export const STORE_NAMESPACES = '.countersign-namespaces';

/** A Temporal namespace whose workers use a store. */
export const StoreNamespace = z.strictObject({
  name: z.string().min(1).max(1_000),
  /** As its Temporal service has made it: a namespace of the same name at another service has another. */
  id: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
});
export type StoreNamespace = z.infer<typeof StoreNamespace>;

// What a vault holds under a reference: a secret that outlives the call, and who may use it where.

const HttpUrl = z.url({ protocol: /^https?$/ });
/** Never logged, never part of an error. */
const Token = z.string().regex(/^[\x21-\x7e]{1,8192}$/, 'must be printable ASCII without spaces');

export const VaultSecret = z.discriminatedUnion('kind', [
  /** An access token that its issuer lets live long; used as it is (`credentials: given`). */
  z.strictObject({ kind: z.literal('token'), token: Token }),
  /** Exchanged for an access token of one call (`credentials: refresh`), by this issuer and nobody else. */
  z.strictObject({ kind: z.literal('refresh-token'), token: Token, issuer: HttpUrl }),
]);
export type VaultSecret = z.infer<typeof VaultSecret>;

/** Whose runs may name the entry, and for which server: whoever starts a run chooses a reference, not whose it is. */
export const VaultBinding = z.strictObject({
  tenant: Identifier.default('default'),
  initiators: z.array(Identifier).min(1).max(100),
  /** Canonical server URL (RFC 8707 resource). */
  server: HttpUrl,
});
export type VaultBinding = z.infer<typeof VaultBinding>;

/**
 * A refresh token has been sent, or is about to be, and what it was exchanged for is not written yet. Until `until` its worker may
 * still write it; after that it is lost.
 */
export const Renewal = z.strictObject({ id: Identifier, since: Instant, until: Instant });
export type Renewal = z.infer<typeof Renewal>;

export const VaultEntry = z.strictObject({
  secret: VaultSecret,
  bound: VaultBinding,
  storedAt: Instant,
  /** Of the grant, where it is known. */
  expiresAt: Instant.optional(),
  renewal: Renewal.optional(),
  /** When the issuer refused it for good. */
  refusedAt: Instant.optional(),
});
export type VaultEntry = z.infer<typeof VaultEntry>;

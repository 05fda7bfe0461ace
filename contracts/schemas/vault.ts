/** What a vault holds under a reference: a secret that outlives the call, and who may use it where. */
import { z } from 'zod';
import { Identifier, Instant } from './json.ts';

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

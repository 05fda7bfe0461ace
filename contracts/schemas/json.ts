/** All schemas build on these values: JSON on the wire (RFC 8259), hashes, times, identifiers, references and keys. */
import { z } from 'zod';

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export const JsonValue: z.ZodType<JsonValue> = z.json();
export const JsonObject: z.ZodType<JsonObject> = z.record(z.string(), z.json());

export const Sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hexadecimal characters');

/** ISO 8601 date and time in UTC with milliseconds, as `Date.prototype.toISOString` writes it. */
export const Instant = z.iso.datetime({
  offset: false,
  precision: 3,
  error: 'must be a time like 2026-01-31T09:00:00.000Z',
});

/**
 * An identifier that people and logs see: printable ASCII without spaces. Unicode normalization (NFKC) changes no such
 * text, so each is its own normal form, and no two look alike by accents or other scripts.
 */
export const Identifier = z
  .string()
  .regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 printable ASCII characters without spaces');

/** The name of a server, model or agent in configuration. */
export const Name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit');

/** People by id, and by the groups that they belong to. */
export const people = {
  ids: z.array(Identifier).max(100).default([]),
  groups: z.array(Identifier).max(100).default([]),
};

/** A secret after substitution. Never logged, never part of an error. */
export const Secret = z.string().min(1);
export const HttpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

export const SocketAddress = z
  .string()
  .regex(
    /^(?:\[[0-9a-fA-F:]+\]|\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/,
    'must be an IP address and a port, such as 127.0.0.1:9464',
  );

/** Bytes kept outside history, addressed by their hash. */
export const ArtifactRef = z.strictObject({
  sha256: Sha256Hex,
  bytes: z.int().nonnegative(),
  contentType: z.string(),
});
export type ArtifactRef = z.infer<typeof ArtifactRef>;

/** A symmetric key: 32 bytes, base64. In a list the first key encrypts or proves; all decrypt or verify. */
export const CodecKey = z.strictObject({
  id: Name,
  key: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, 'must be 32 bytes in base64'),
});
export type CodecKey = z.infer<typeof CodecKey>;

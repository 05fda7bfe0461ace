/** Canonical JSON (RFC 8785) and sha256 over it make every hash of this project. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/**
 * Serialises a value; undefined fields are left out, as in JSON. RFC 8785 §3.2.2.2 refuses illegal Unicode; here it is
 * written as ECMAScript does (`\ud800`), since models and senders can produce it and a throw would wedge a run.
 * @throws TypeError for a value that JSON cannot express
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value))
    return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || ('toJSON' in value && typeof value.toJSON === 'function'))
    throw new TypeError('only JSON values have a canonical form');
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
  // The order is by UTF-16 units (RFC 8785 §3.2.3), which is how ECMAScript compares strings.
  fields.sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${fields.map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`).join(',')}}`;
}

export function sha256Hex(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)));
}

/** Returns the lower-case hexadecimal sha256 of a value's canonical JSON. */
export function hashOf(value: unknown): string {
  return sha256Hex(canonicalJson(value));
}

/** Half of the hash, by which a run knows a message again. */
export function shortHashOf(value: unknown): string {
  return hashOf(value).slice(0, 32);
}

export function byteLength(text: string): number {
  return utf8ToBytes(text).length;
}

// Decodes base64url (RFC 4648 §5) strictly: one text per value, so that nothing signed has a second spelling.

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const VALUES = new Map([...ALPHABET].map((character, value) => [character, value]));

/** Undefined if the text is not base64url, or has bits that stand for nothing. */
export function fromBase64url(text: string): Uint8Array | undefined {
  if (text.length % 4 === 1) return undefined;
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let held = 0;
  let bits = 0;
  let at = 0;
  for (const character of text) {
    const value = VALUES.get(character);
    if (value === undefined) return undefined;
    held = (held << 6) | value;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at] = held >> bits;
    at += 1;
    held &= (1 << bits) - 1;
  }
  return held === 0 ? bytes : undefined;
}

export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return decodeURIComponent([...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''));
  } catch {
    return undefined;
  }
}

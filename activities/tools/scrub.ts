/**
 * Takes secrets out of what a server said, because servers echo what they are sent (INV-S1).
 *
 * Owns the forms in which a secret may come back. Does not own which values are secrets: the caller names them.
 *
 * 1. A secret is found raw, JSON-escaped, URL-encoded, in hexadecimal of either case, and in base64 or base64url at any alignment
 *    inside longer text; and each of these inside a URL. What is compressed or encrypted before it comes back is not found.
 * 2. The scheme before a credential ("Bearer …") is no part of the secret: the credential alone is found too.
 * 3. Cost is linear in the text: each form is one substring search.
 * 4. What comes back is well-formed Unicode: a lone surrogate has no UTF-8 form and would not survive storage unchanged.
 */

/** What stands in a secret's place. */
export const MASK = '[redacted]';

/** Shorter values would blank ordinary text and are no secrets. */
const SHORTEST_SECRET = 4;
/** A fragment of base64 shorter than this is found by chance in ordinary text. */
const SHORTEST_FRAGMENT = 8;

export interface Scrubber {
  text(value: string): string;
  /** Every string in a JSON value, keys included. */
  value(value: unknown): unknown;
  /** Bytes that are no text: found secrets are overwritten in place of being cut out, so that offsets keep. */
  bytes(value: Uint8Array): Uint8Array;
}

export function createScrubber(secrets: readonly string[]): Scrubber {
  const needles = formsOf(secrets);
  const shortest = needles.at(-1)?.length ?? Infinity;
  const text = (value: string): string => {
    let clean = wellFormed(value);
    // Of one answer there may be hundreds of thousands that hold none of many.
    if (clean.length < shortest) return clean;
    for (const needle of needles) {
      // `includes` first: it is several times faster than `replaceAll` where there is nothing to replace.
      if (clean.includes(needle)) clean = clean.replaceAll(needle, MASK);
    }
    return clean;
  };
  const value = (found: unknown): unknown => {
    if (typeof found === 'string') return text(found);
    if (Array.isArray(found)) return found.map(value);
    if (found === null || typeof found !== 'object') return found;
    // fromEntries defines own properties, so a key `__proto__` stays a key.
    return Object.fromEntries(Object.entries(found).map(([key, inner]) => [text(key), value(inner)]));
  };
  const bytes = (found: Uint8Array): Uint8Array => {
    const clean = Buffer.from(found);
    for (const needle of needles) {
      const pattern = Buffer.from(needle, 'utf8');
      for (let at = clean.indexOf(pattern); at !== -1; at = clean.indexOf(pattern, at + pattern.length)) {
        clean.fill('*', at, at + pattern.length);
      }
    }
    return clean;
  };
  return { text, value, bytes };
}

/** Longest first, so that a form is replaced whole before a form inside it. */
function formsOf(secrets: readonly string[]): string[] {
  const forms = new Set<string>();
  for (const secret of secrets.flatMap((given) => [given, withoutScheme(given)])) {
    if (secret.length < SHORTEST_SECRET) continue;
    const base64 = Buffer.from(secret, 'utf8').toString('base64');
    const fragments = [0, 1, 2]
      .map((offset) => fragmentAt(secret, offset))
      .filter((part) => part.length >= SHORTEST_FRAGMENT);
    const encoded = urlForms(secret);
    const hex = Buffer.from(secret, 'utf8').toString('hex');
    const inText = [secret, JSON.stringify(secret).slice(1, -1), ...encoded];
    for (const form of [...inText, hex, hex.toUpperCase(), base64, ...fragments]) {
      forms.add(form);
      forms.add(form.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''));
      // Inside a URL, for instance as a parameter to come back to.
      for (const outer of urlForms(form)) forms.add(outer);
    }
  }
  return [...forms].toSorted((one, other) => other.length - one.length);
}

/** `String.prototype.toWellFormed` of ES2024. With the `u` flag a surrogate matches only where it stands alone. */
function wellFormed(value: string): string {
  return value.replaceAll(/\p{Surrogate}/gu, '\ufffd');
}

function withoutScheme(value: string): string {
  return value.replace(/^\s*(?:bearer|basic|token)\s+/i, '');
}

/** The characters of base64 that depend on the secret alone when `offset` bytes stand before it in the encoded text. */
function fragmentAt(secret: string, offset: number): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret, 'utf8')]);
  const encoded = bytes.toString('base64').replace(/=+$/, '');
  const lead = [0, 2, 3][offset] ?? 0;
  return encoded.slice(lead, bytes.length % 3 === 0 ? undefined : -1);
}

function urlForms(secret: string): string[] {
  // Query encoding is the widest (WHATWG URL, application/x-www-form-urlencoded); the others leave more characters as they are.
  const query = new URLSearchParams({ v: secret }).toString().slice(2);
  const component = encodeURIComponent(wellFormed(secret));
  return [query, component].flatMap((form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]);
}

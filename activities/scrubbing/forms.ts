/**
 * Lists the forms of a secret that are sought, besides those that are decoded first (`scrubber.ts`).
 *
 * 1. Written forms are the secret and its usual encodings, character for character.
 * 2. Folded forms are letters and digits alone, in lower case, since separators, line ends, padding and case carry
 *    nothing. A folded form is used only if it is long enough not to occur in ordinary text by chance.
 */
import { FOLDED, SQUEEZED, valuesIn } from './alphabets.ts';
import { Effort } from './spans.ts';
import { unescaped } from './escapes.ts';

/** Shorter values would blank ordinary text and are no secrets. */
const SHORTEST_SECRET = 4;
/** Decoded bytes may be anything: a shorter secret would be found by chance in bytes that were never encoded. */
const SHORTEST_DECODED = 8;
/** A fragment of base64 shorter than this is found by chance in ordinary text. */
const SHORTEST_FRAGMENT = 8;
/** Letters and digits in the order of a secret, with any characters between them. */
const FEWEST_FOLDED = 16;
/** The same limit for base64 and base32, which look like no words. */
const FEWEST_FOLDED_FRAGMENT = 12;

/** Letters and digits that the mark of an escape may consume. */
const MOST_TAKEN = 3;

export interface Forms {
  /** Forms sought in received bytes, and in those with their escapes decoded. */
  readonly written: readonly Uint8Array[];
  /** Forms sought in decoded bytes; the very list of `written` if no secret is too short for them. */
  readonly decoded: readonly Uint8Array[];
  readonly folded: readonly Uint8Array[];
}

export function formsOf(secrets: readonly string[]): Forms {
  const known = [...new Set(secrets.flatMap((given) => [given, withoutScheme(given)]))];
  const isWritten = (secret: string): boolean => secret.length >= SHORTEST_SECRET;
  const isDecoded = (secret: string): boolean => Buffer.byteLength(secret) >= SHORTEST_DECODED;
  const formsWhere = (isSought: (secret: string) => boolean): Uint8Array[] =>
    known.filter(isSought).flatMap(writtenForms).map(bytesOf);
  const written = formsWhere(isWritten);
  const isSame = known.every((secret) => isWritten(secret) === isDecoded(secret));
  return { written, decoded: isSame ? written : formsWhere(isDecoded), folded: known.flatMap(foldedForms) };
}

function writtenForms(secret: string): string[] {
  const bytes = bytesOf(secret);
  const hex = bytes.toString('hex');
  const fragments = [0, 1, 2]
    .map((offset) => base64At(bytes, offset))
    .filter(({ length }) => length >= SHORTEST_FRAGMENT);
  const base64 = [bytes.toString('base64'), ...fragments];
  return [secret, inJson(secret), ...inUrls(secret), hex, hex.toUpperCase(), ...base64, ...base64.map(urlSafe)];
}

function foldedForms(secret: string): Uint8Array[] {
  const bytes = bytesOf(secret);
  const raw = foldedBytes(bytes);
  const codes = [...bytes].map((byte) => byte.toString(16).padStart(2, '0'));
  // The other byte order is the same, shifted by one byte.
  const wide = Buffer.from(secret, 'utf16le').subarray(0, -1);
  const inFull = [
    codes.join(''),
    wide.toString('hex'),
    // Forms of \u0041 and &#x41; without punctuation.
    codes.map((code) => `u00${code}`).join(''),
    codes.map((code) => `x${code}`).join(''),
    codes.map((code) => `0x${code}`).join(''),
    [...bytes].join(''),
    [...bytes].map((byte) => byte.toString(8).padStart(3, '0')).join(''),
  ];
  // Letters and digits of escapes mix with those of the secret.
  const escaped = [inJson(secret), ...inUrls(secret), inHtml(secret), secret.replaceAll('=', '=3D')];
  const fragments = [bytes, wide].flatMap((each) => [
    ...[0, 1, 2].map((offset) => base64At(each, offset)),
    ...[0, 1, 2, 3, 4].map((offset) => base32At(each, offset)),
  ]);
  const forms = [
    ...(raw.length < FEWEST_FOLDED ? [] : escaped.map(folded)),
    ...inFull.filter(({ length }) => length >= FEWEST_FOLDED).map(bytesOf),
    ...fragments.map(folded).filter(({ length }) => length >= FEWEST_FOLDED_FRAGMENT),
  ];
  return [
    ...forms.flatMap((form) => [form, form.toReversed()]),
    ...[bytes, bytes.toReversed()].flatMap(readForms).filter(({ length }) => length >= FEWEST_FOLDED),
  ];
}

/**
 * Returns the letters of a secret as the decoder would read them. A secret that looks like escapes is decoded as such
 * among escapes, and a mark before it consumes its first letters.
 */
function readForms(secret: Uint8Array): Uint8Array[] {
  const once = unescaped(secret, new Effort());
  const twice = once && unescaped(once.bytes, new Effort());
  const apart = unescaped(valuesIn(secret, SQUEEZED, new Effort()).bytes, new Effort());
  const read = [secret, ...[once, twice, apart].flatMap((derived) => (derived === undefined ? [] : [derived.bytes]))];
  return read.map(foldedBytes).flatMap((form) => [form, form.subarray(MOST_TAKEN)]);
}

function folded(text: string): Uint8Array {
  return foldedBytes(bytesOf(text));
}

function foldedBytes(bytes: Uint8Array): Uint8Array {
  return valuesIn(bytes, FOLDED, new Effort()).bytes;
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'utf8');
}

function withoutScheme(value: string): string {
  return value.replace(/^\s*(?:bearer|basic|token)\s+/i, '');
}

function inJson(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

function inHtml(secret: string): string {
  return secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function inUrls(secret: string): string[] {
  // Query encoding is the widest (WHATWG URL, application/x-www-form-urlencoded); the others leave more characters as
  // they are.
  const query = new URLSearchParams({ v: secret }).toString().slice(2);
  const component = encodeURIComponent(secret.replaceAll(/\p{Surrogate}/gu, '\ufffd'));
  return [query, component].flatMap((form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]);
}

function urlSafe(form: string): string {
  return form.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** Returns the base64 characters that depend on the secret alone if `offset` bytes precede it in the encoded text. */
function base64At(secret: Uint8Array, offset: number): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), secret]);
  const encoded = bytes.toString('base64').replace(/=+$/, '');
  const lead = [0, 2, 3][offset] ?? 0;
  return encoded.slice(lead, bytes.length % 3 === 0 ? undefined : -1);
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function base32At(secret: Uint8Array, offset: number): string {
  let [window, held, encoded] = [0, 0, ''];
  for (const byte of [...Buffer.alloc(offset), ...secret]) {
    window = (window << 8) | byte;
    held += 8;
    while (held >= 5) {
      held -= 5;
      encoded += BASE32[(window >>> held) & 31] ?? '';
    }
  }
  // Left-over bits share their character with what comes after.
  return encoded.slice(Math.ceil((offset * 8) / 5));
}

/**
 * Finds canaries: values that must not stand anywhere, in any form in which software writes a value.
 *
 * 1. The scan reads stored bytes, not decoded values, since the stored bytes are what counts.
 * 2. Half of a value is found too, because a database page may end in the middle of it.
 * 3. Packed data is unpacked: gzip wherever it begins, and base64 inside base64.
 * 4. The scan is repeated with only letters and digits left, so separators and case hide nothing.
 */
import { constants, gunzipSync } from 'node:zlib';

export interface Canary {
  readonly name: string;
  readonly value: string;
}

export interface Sighting {
  readonly canary: string;
  /** The form in which the value was written: `base64`, `gzip > raw`, … */
  readonly form: string;
  readonly place: string;
  /** The surrounding text, which helps to find out how the value got there. */
  readonly near: string;
}

const NEAR_BYTES = 60;

interface Needle {
  readonly canary: string;
  readonly form: string;
  readonly bytes: Buffer;
}

/** A shorter half could occur by chance. */
const SHORTEST_HALF = 12;
const MOST_LAYERS = 3;
const GZIP = Buffer.from([0x1f, 0x8b, 0x08]);
const BASE64 = /[A-Za-z0-9+/_-]{32,}/g;

export class CanaryScanner {
  readonly #needles: Needles;
  readonly #letters: Needles;

  constructor(canaries: readonly Canary[]) {
    this.#needles = byBeginning(
      canaries.flatMap(({ name, value }) =>
        formsOf(value).flatMap(([form, text]) =>
          [text, ...halvesOf(text)].map((piece) => ({ canary: name, form, bytes: Buffer.from(piece) })),
        ),
      ),
    );
    this.#letters = byBeginning(
      canaries.flatMap(({ name, value }) =>
        otherFormsOf(value).map(([form, text]) => ({
          canary: name,
          form: `letters of: ${form}`,
          bytes: lettersOf(Buffer.from(text)),
        })),
      ),
    );
  }

  scan(place: string, content: Uint8Array | string): readonly Sighting[] {
    const found = new Map<string, Sighting>();
    const report = (sighting: Omit<Sighting, 'place'>): void =>
      void found.set(`${sighting.canary} ${sighting.form}`, { ...sighting, place });
    const bytes = Buffer.from(content);
    this.#look(bytes, [], report);
    lookFor(this.#letters, lettersOf(bytes), [], report);
    return [...found.values()];
  }

  #look(bytes: Buffer, layers: readonly string[], report: (sighting: Omit<Sighting, 'place'>) => void): void {
    lookFor(this.#needles, bytes, layers, report);
    if (layers.length === MOST_LAYERS) return;
    for (let at = bytes.indexOf(GZIP); at !== -1; at = bytes.indexOf(GZIP, at + 1)) {
      const plain = unpacked(bytes.subarray(at));
      if (plain !== undefined) this.#look(plain, [...layers, 'gzip'], report);
    }
    for (const [span] of bytes.toString('latin1').matchAll(BASE64)) {
      // The text before the value may look like a part of it.
      for (const offset of [0, 1, 2, 3])
        this.#look(Buffer.from(span.slice(offset), 'base64'), [...layers, 'base64'], report);
    }
  }
}

/** Needles by their first three bytes, so that thousands of them are looked for in one walk. */
interface Needles {
  /** 1 for each pair of bytes with which a needle begins. Most places need no other look. */
  readonly pairs: Uint8Array;
  readonly beginnings: ReadonlyMap<number, readonly Needle[]>;
}

function byBeginning(needles: readonly Needle[]): Needles {
  const pairs = new Uint8Array(0x1_00_00);
  const beginnings = new Map<number, Needle[]>();
  for (const needle of needles) {
    if (needle.bytes.length < 3) throw new Error(`${needle.canary} is too short to be looked for as ${needle.form}`);
    pairs[needle.bytes.readUInt16BE(0)] = 1;
    const beginning = needle.bytes.readUIntBE(0, 3);
    beginnings.set(beginning, [...(beginnings.get(beginning) ?? []), needle]);
  }
  return { pairs, beginnings };
}

function lookFor(
  { pairs, beginnings }: Needles,
  bytes: Buffer,
  layers: readonly string[],
  report: (sighting: Omit<Sighting, 'place'>) => void,
): void {
  const reported = new Set<Needle>();
  let pair = bytes[0] ?? 0;
  for (let at = 0; at + 2 < bytes.length; at += 1) {
    pair = ((pair & 0xff) << 8) | (bytes[at + 1] ?? 0);
    if (pairs[pair] === 0) continue;
    for (const needle of beginnings.get((pair << 8) | (bytes[at + 2] ?? 0)) ?? []) {
      const end = at + needle.bytes.length;
      if (reported.has(needle) || end > bytes.length || needle.bytes.compare(bytes, at, end) !== 0) continue;
      reported.add(needle);
      const near = bytes.subarray(Math.max(0, at - NEAR_BYTES), end + NEAR_BYTES).toString('latin1');
      report({ canary: needle.canary, form: [...layers, needle.form].join(' > '), near });
    }
  }
}

/** Keeps lower-case letters and digits. */
function lettersOf(bytes: Buffer): Buffer {
  const letters = Buffer.alloc(bytes.length);
  let length = 0;
  for (const byte of bytes) {
    const small = byte >= 65 && byte <= 90 ? byte + 32 : byte;
    if ((small < 97 || small > 122) && (small < 48 || small > 57)) continue;
    letters[length] = small;
    length += 1;
  }
  return letters.subarray(0, length);
}

function otherFormsOf(value: string): (readonly [form: string, text: string])[] {
  // JSON writes the zeros of UTF-16 in this form.
  return [
    ...Object.entries(ENCODINGS).map(([form, encode]) => [form, encode(value)] as const),
    ['UTF-16 in JSON', [...value].join('u0000')],
  ];
}

/** Returns undefined if the bytes only looked like gzip. */
function unpacked(bytes: Buffer): Buffer | undefined {
  try {
    // Data that is cut or followed by something else is read as far as possible.
    return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH });
  } catch {
    return undefined;
  }
}

function formsOf(value: string): (readonly [form: string, text: string])[] {
  const bytes = Buffer.from(value);
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  const base64 = [0, 1, 2].map((offset) => fragmentOf(bytes, offset));
  return [
    ['raw', value],
    ['JSON', JSON.stringify(value).slice(1, -1)],
    ['URL', encodeURIComponent(value)],
    ['URL', new URLSearchParams({ v: value }).toString().slice(2)],
    ['URL', percent],
    ['URL', percent.toUpperCase()],
    ['hex', bytes.toString('hex')],
    ['hex', bytes.toString('hex').toUpperCase()],
    ...base64.map((text) => ['base64', text] as const),
    ...base64.map((text) => ['base64url', text.replaceAll('+', '-').replaceAll('/', '_')] as const),
  ];
}

/** Returns the base64 characters that depend only on the value, for this many bytes before it (RFC 4648 §4). */
function fragmentOf(bytes: Buffer, offset: number): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/, '');
  return encoded.slice([0, 2, 3][offset], (offset + bytes.length) % 3 === 0 ? undefined : -1);
}

function halvesOf(text: string): string[] {
  const middle = Math.floor(text.length / 2);
  return middle < SHORTEST_HALF ? [] : [text.slice(0, middle), text.slice(middle)];
}

// Lists ways to write a text so that it no longer stands there but is complete: forms in which a hostile
// server may echo a secret.

export type Encode = (text: string) => string;

const bytesOf = (text: string): Buffer => Buffer.from(text, 'utf8');
const hexOf = (byte: number): string => byte.toString(16).padStart(2, '0');
const each = (text: string, write: (byte: number) => string, between = ''): string =>
  [...bytesOf(text)].map(write).join(between);
const units = (text: string, write: (unit: string) => string): string =>
  Array.from({ length: text.length }, (_, at) => write(text.charCodeAt(at).toString(16).padStart(4, '0'))).join('');
const base64 = (text: string): string => bytesOf(text).toString('base64');
const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le');
const lines = (text: string, width: number): string => text.replaceAll(new RegExp(`.{${width}}`, 'gs'), '$&\r\n');

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function base32(text: string): string {
  const bits = each(text, (byte) => byte.toString(2).padStart(8, '0'));
  const characters = bits.replaceAll(/.{1,5}/g, (group) => BASE32[Number.parseInt(group.padEnd(5, '0'), 2)] ?? '');
  return characters.padEnd(Math.ceil(characters.length / 8) * 8, '=');
}

const NAMES: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  "'": 'apos',
  '=': 'equals',
  '/': 'sol',
  '+': 'plus',
  _: 'lowbar',
  '.': 'period',
};

/** Encodings by name. All of them are promised to be found (INV-S1, SECURITY.md), also one inside another. */
export const ENCODINGS: Readonly<Record<string, Encode>> = {
  'as it is': (text) => text,
  'in capitals': (text) => text.toUpperCase(),
  'percent escapes of every byte, small': (text) => each(text, (byte) => `%${hexOf(byte)}`),
  'percent escapes of every byte, large': (text) => each(text, (byte) => `%${hexOf(byte).toUpperCase()}`),
  'percent escapes where a URL needs them': encodeURIComponent,
  'percent escapes of characters': (text) => units(text, (unit) => `%u${unit}`),
  'a form': (text) => new URLSearchParams({ text }).toString(),
  'JSON escapes of every character': (text) => units(text, (unit) => `\\u${unit}`),
  'a string in JSON': (text) => JSON.stringify(text),
  'escapes of bytes, as in Python': (text) => each(text, (byte) => `\\x${hexOf(byte)}`),
  'octal escapes': (text) => each(text, (byte) => `\\${byte.toString(8).padStart(3, '0')}`),
  'HTML entities, decimal': (text) => each(text, (byte) => `&#${byte};`),
  'HTML entities, hexadecimal': (text) => each(text, (byte) => `&#x${hexOf(byte)};`),
  'HTML entities by name': (text) => text.replaceAll(/[&<>"'=/+_.]/g, (character) => `&${NAMES[character] ?? ''};`),
  base64,
  'base64 for URLs': (text) => bytesOf(text).toString('base64url'),
  'base64 in lines': (text) => lines(base64(text), 10),
  'base64 inside more of it': (text) => base64(`user:${text}@host`),
  hexadecimal: (text) => each(text, hexOf),
  'hexadecimal, large': (text) => each(text, (byte) => hexOf(byte).toUpperCase()),
  'hexadecimal with colons': (text) => each(text, hexOf, ':'),
  'hexadecimal with spaces': (text) => each(text, hexOf, ' '),
  'hexadecimal, each byte with 0x': (text) => each(text, (byte) => `0x${hexOf(byte)}`, ', '),
  base32,
  'base32, small, without padding': (text) => base32(text).toLowerCase().replaceAll('=', ''),
  'base32 in lines': (text) => lines(base32(text), 12),
  'numbers of the bytes': (text) => `[${each(text, String, ', ')}]`,
  'UTF-16': (text) => utf16(text).toString('latin1'),
  'UTF-16 in base64': (text) => utf16(text).toString('base64'),
  'UTF-16 in base64, the other way round': (text) => utf16(text).swap16().toString('base64'),
  'UTF-16 in base32': (text) => base32(utf16(text).toString('latin1')),
  'UTF-16 in hexadecimal': (text) => utf16(text).toString('hex'),
  backwards: (text) => [...text].toReversed().join(''),
  'with spaces': (text) => [...text].join(' '),
  'with hyphens': (text) => [...text].join('-'),
  'in lines': (text) => lines(text, 5),
};

/** Applies each encoding to the result of another. */
export function encodedTwice(text: string): readonly string[] {
  const all = Object.values(ENCODINGS);
  return all.flatMap((outer) => all.map((inner) => outer(inner(text))));
}

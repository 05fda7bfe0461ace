/**
 * Lists ways to write a text so that it no longer stands there but is complete: forms in which a hostile
 * server may echo a secret.
 */

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

/**
 * Decodes the escapes of URLs, of strings in JSON and similar languages, and of HTML, all in one pass.
 *
 * 1. An escape may stand for a byte, as in URLs, or for a character, which is written in UTF-8.
 * 2. Bytes that are no escape stay. The result never grows: no escape is shorter than what it stands for.
 */
import { isDigit, isLetter } from './alphabets.ts';
import { derived, type Derived, type Effort, type Watch } from './spans.ts';

const [PERCENT, BACKSLASH, AMPERSAND, HASH, SEMICOLON, ZERO] = [...'%\\&#;0'].map((each) => each.charCodeAt(0));
const [SMALL_U, SMALL_X, LARGE_X, OPEN, CLOSE] = [...'uxX{}'].map((each) => each.charCodeAt(0));

/** 1 for each byte that may begin an escape. */
const BEGINS = new Uint8Array(256);
for (const byte of [PERCENT, BACKSLASH, AMPERSAND, ZERO]) BEGINS[byte ?? 0] = 1;

/** Bytes by the letter after a backslash. */
const AFTER_BACKSLASH: ReadonlyMap<number, number> = new Map(
  ['n\n', 'r\r', 't\t', 'b\b', 'f\f', 'v\v', '""', "''", '//', '\\\\'].map((pair) => [
    pair.charCodeAt(0),
    pair.charCodeAt(1),
  ]),
);

/** HTML's names of the characters that secrets have besides letters and digits; other names stand for none of those. */
const NAMES = [
  '! excl, " quot QUOT, # num, $ dollar, % percnt, & amp AMP, \' apos, ( lpar, ) rpar, * ast midast, + plus, . period',
  '/ sol, : colon, ; semi, < lt LT, = equals, > gt GT, ? quest, @ commat, [ lsqb lbrack, \\ bsol, ] rsqb rbrack, ^ Hat',
  '_ lowbar UnderBar, ` grave DiacriticalGrave, { lcub lbrace, | verbar vert VerticalLine, } rcub rbrace',
];
const NAMED = new Map([
  ['comma', 44],
  ['Tab', 9],
  ['NewLine', 10],
]);
for (const line of NAMES)
  for (const [meant = '', ...names] of line.split(', ').map((each) => each.split(' ')))
    for (const name of names) NAMED.set(name, meant.charCodeAt(0));
const LONGEST_NAME = 32;

interface Escape {
  /** A byte if `isByte` is set, else a code point. */
  readonly code: number;
  readonly length: number;
  readonly isByte?: true;
}

/** Returns undefined if the bytes hold no escape. */
export function unescaped(bytes: Uint8Array, effort: Effort): Derived | undefined {
  effort.spend(bytes.length);
  let first = 0;
  while (first < bytes.length && (BEGINS[bytes[first] ?? 0] !== 1 || escapeAt(bytes, first) === undefined)) first += 1;
  if (first === bytes.length) return undefined;
  effort.spend(bytes.length);
  return derived(bytes.length, (made, watch) => read(bytes, made, watch));
}

/** True if a byte may begin an escape, digits not counted. */
export function mayBeEscaped(bytes: Uint8Array): boolean {
  return [PERCENT, BACKSLASH, AMPERSAND].some((mark) => bytes.includes(mark ?? 0));
}

/** @returns how many bytes were made */
function read(bytes: Uint8Array, made: Uint8Array, watch?: Watch): number {
  let length = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at] ?? 0;
    const escape = BEGINS[byte] === 1 ? escapeAt(bytes, at) : undefined;
    let count = 1;
    if (escape === undefined) made[length] = byte;
    else if (escape.isByte === true) made[length] = escape.code;
    else {
      count = utf8Length(escape.code);
      writeUtf8(made, length, escape.code);
    }
    const taken = escape?.length ?? 1;
    watch?.saw(length, count, at, at + taken);
    length += count;
    at += taken;
  }
  return length;
}

function escapeAt(bytes: Uint8Array, at: number): Escape | undefined {
  const next = bytes[at + 1];
  switch (bytes[at]) {
    case PERCENT:
      return next === SMALL_U ? unitsAt(bytes, at) : byteAt(bytes, at, 1);
    case ZERO:
      // Such a number is one byte of several written so; a longer one is read as hexadecimal elsewhere.
      return (next === SMALL_X || next === LARGE_X) &&
        !isLetterOrDigit(bytes[at - 1] ?? 0) &&
        digitsAt(bytes, at + 2, 3, 16) === 2
        ? byteAt(bytes, at, 2)
        : undefined;
    case BACKSLASH:
      return backslashAt(bytes, at);
    case AMPERSAND:
      return entityAt(bytes, at);
    default:
      return undefined;
  }
}

function backslashAt(bytes: Uint8Array, at: number): Escape | undefined {
  const next = bytes[at + 1];
  if (next === undefined) return undefined;
  if (next === SMALL_X) return byteAt(bytes, at, 2);
  if (next === SMALL_U) {
    if (bytes[at + 2] !== OPEN) return unitsAt(bytes, at);
    const digits = digitsAt(bytes, at + 3, 7, 16);
    return digits > 0 && bytes[at + 3 + digits] === CLOSE
      ? codePoint(numberAt(bytes, at + 3, digits, 16), 4 + digits)
      : undefined;
  }
  const octal = digitsAt(bytes, at + 1, 3, 8);
  if (octal > 0) return { code: numberAt(bytes, at + 1, octal, 8) & 255, length: 1 + octal, isByte: true };
  const meant = AFTER_BACKSLASH.get(next);
  return meant === undefined ? undefined : { code: meant, length: 2, isByte: true };
}

/** Reads `%u0041` and `\u0041`; a character of two units takes two of them. */
function unitsAt(bytes: Uint8Array, at: number): Escape | undefined {
  if (digitsAt(bytes, at + 2, 4, 16) < 4) return undefined;
  const unit = numberAt(bytes, at + 2, 4, 16);
  const isPair =
    (unit & 0xfc00) === 0xd800 &&
    bytes[at + 6] === bytes[at] &&
    bytes[at + 7] === SMALL_U &&
    digitsAt(bytes, at + 8, 4, 16) === 4;
  const low = isPair ? numberAt(bytes, at + 8, 4, 16) : 0;
  if ((low & 0xfc00) === 0xdc00) return codePoint(0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff), 12);
  return codePoint(unit, 6);
}

function entityAt(bytes: Uint8Array, at: number): Escape | undefined {
  if (bytes[at + 1] === HASH) {
    const isHex = bytes[at + 2] === SMALL_X || bytes[at + 2] === LARGE_X;
    const [first, base] = isHex ? [at + 3, 16] : [at + 2, 10];
    const digits = digitsAt(bytes, first, 12, base);
    if (digits === 0) return undefined;
    const end = first + digits;
    return codePoint(numberAt(bytes, first, digits, base), end - at + (bytes[end] === SEMICOLON ? 1 : 0));
  }
  let end = at + 1;
  while (end - at <= LONGEST_NAME && isLetterOrDigit(bytes[end] ?? 0)) end += 1;
  if (end - at < 3 || bytes[end] !== SEMICOLON) return undefined;
  const name = Buffer.from(bytes.subarray(at + 1, end)).toString('latin1');
  return { code: NAMED.get(name) ?? 32, length: end + 1 - at, isByte: true };
}

/** Reads the two digits at that distance behind. */
function byteAt(bytes: Uint8Array, at: number, behind: number): Escape | undefined {
  const first = at + behind;
  if (digitsAt(bytes, first, 2, 16) < 2) return undefined;
  return { code: numberAt(bytes, first, 2, 16), length: behind + 2, isByte: true };
}

function codePoint(code: number, length: number): Escape {
  return { code: code > 0x10ffff ? 32 : code, length };
}

function digitsAt(bytes: Uint8Array, at: number, most: number, base: number): number {
  let count = 0;
  while (count < most && digitOf(bytes[at + count] ?? 0) < base) count += 1;
  return count;
}

function numberAt(bytes: Uint8Array, at: number, digits: number, base: number): number {
  let number = 0;
  for (let each = 0; each < digits; each += 1) number = number * base + digitOf(bytes[at + each] ?? 0);
  return number;
}

function digitOf(byte: number): number {
  if (isDigit(byte)) return byte - 48;
  const small = byte | 32;
  return small >= 97 && small <= 102 ? small - 87 : 255;
}

function isLetterOrDigit(byte: number): boolean {
  return isDigit(byte) || isLetter(byte);
}

function utf8Length(code: number): number {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

function writeUtf8(made: Uint8Array, at: number, code: number): void {
  const count = utf8Length(code);
  if (count === 1) {
    made[at] = code;
    return;
  }
  for (let each = count - 1; each > 0; each -= 1) made[at + each] = 0x80 | ((code >>> (6 * (count - 1 - each))) & 0x3f);
  made[at] = ((0xf00 >>> count) & 0xff) | (code >>> (6 * (count - 1)));
}

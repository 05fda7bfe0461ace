/**
 * Decodes bytes that were written with the characters of an alphabet: base64, base32, hexadecimal.
 *
 * 1. A character outside the alphabet is skipped: separators, line ends, padding, escapes that are read elsewhere.
 * 2. The start of an encoding is unknown, so it is read from each character at which a byte could begin.
 * 3. Only stretches that could hold a secret are kept: bytes that secrets, or text, are made of. Ordinary text leaves
 *    almost none.
 */
import { derived, type Derived, type Effort, type Span, Watch } from './spans.ts';

export interface Alphabet {
  /** Value of each byte, or `NONE`. */
  readonly values: Uint8Array;
  /** Bits that one character carries. */
  readonly bits: 4 | 5 | 6;
}

export const NONE = 255;

const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const LOWER = UPPER.toLowerCase();
const DIGITS = '0123456789';

/** RFC 4648 §4 and §5 in one: no text uses both. */
const BASE64: Alphabet = { values: valuesOf(`${UPPER}${LOWER}${DIGITS}+/`, '-_'), bits: 6 };
/** RFC 4648 §6, in either case. */
const BASE32: Alphabet = { values: valuesOf(`${UPPER}234567`, LOWER), bits: 5 };
const HEX: Alphabet = { values: valuesOf(`${DIGITS}abcdef`), bits: 4 };
HEX.values.set(HEX.values.subarray(97, 103), 65);

export const ALPHABETS: readonly Alphabet[] = [BASE64, BASE32, HEX];

/** Values of letters of either case, as the small one, and of digits. */
export const FOLDED = themselves(`${UPPER}${LOWER}${DIGITS}`);
FOLDED.set(FOLDED.subarray(97, 123), 65);

/** Letters, digits, and the other characters of escapes: escapes that were written apart become adjacent again. */
export const SQUEEZED = themselves(`${UPPER}${LOWER}${DIGITS}%\\&#;{}`);

/** @param also further characters, with the values of the last or first ones */
function valuesOf(characters: string, also = ''): Uint8Array {
  const values = new Uint8Array(256).fill(NONE);
  for (let at = 0; at < characters.length; at += 1) values[characters.charCodeAt(at)] = at;
  const first = also.length === 2 ? characters.length - 2 : 0;
  for (let at = 0; at < also.length; at += 1) values[also.charCodeAt(at)] = first + at;
  return values;
}

function themselves(characters: string): Uint8Array {
  const values = new Uint8Array(256).fill(NONE);
  for (const byte of Buffer.from(characters)) values[byte] = byte;
  return values;
}

export function valuesIn(bytes: Uint8Array, values: Uint8Array, effort: Effort): Derived {
  effort.spend(bytes.length);
  const made = new Uint8Array(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const value = values[bytes[at] ?? 0] ?? NONE;
    made[length] = value;
    // The sum is 0 for `NONE`, else 1: in random text a branch would be mispredicted half of the time.
    length += (2 * NONE - value) >>> 8;
  }
  const locate = (spans: readonly Span[]): Span[] => {
    const watch = new Watch(spans);
    let count = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      if (values[bytes[at] ?? 0] === NONE) continue;
      watch.saw(count, 1, at, at + 1);
      count += 1;
    }
    return watch.located;
  };
  return { bytes: made.subarray(0, length), locate };
}

export interface Likely {
  /** 1 for each byte that may occur in a secret. */
  readonly bytes: Uint8Array;
  /** In a row, to be worth a look. */
  readonly fewest: number;
}

export function* decodings(
  text: Uint8Array,
  { values, bits }: Alphabet,
  likely: Likely,
  effort: Effort,
): Generator<Derived> {
  if (text.length * bits < likely.fewest * 8) return;
  const characters = valuesIn(text, values, effort);
  const beginnings = bits === 6 ? 4 : bits === 5 ? 8 : 2;
  for (let first = 0; first < beginnings; first += 1) {
    const written: Written = { values: characters.bytes, bits, first };
    const runs = runsIn(written, likely, effort);
    if (runs.length === 0) continue;
    const locate = (spans: readonly Span[]): Span[] =>
      characters.locate(
        spans.map(({ start, end }) => ({
          start: first + Math.floor((sourceOf(runs, start) * 8) / bits),
          end: first + Math.ceil(((sourceOf(runs, end - 1) + 1) * 8) / bits),
        })),
      );
    yield { bytes: joined(written, runs, effort), locate };
  }
}

/** Values of characters, whose bits are read from the character `first` on. */
interface Written {
  readonly values: Uint8Array;
  readonly bits: number;
  readonly first: number;
}

/** A run of decoded bytes; `at` is its position among the kept ones. */
interface Run extends Span {
  readonly at: number;
}

function runsIn({ values, bits, first }: Written, { bytes: isLikely, fewest }: Likely, effort: Effort): Run[] {
  const count = Math.floor(((values.length - first) * bits) / 8);
  let kept = 0;
  return stretchesOf(count, fewest, (at) => isLikely[byteAt(values, bits, first, at)] === 1, effort).map((span) => {
    const at = kept;
    kept += span.end - span.start + 1;
    return { ...span, at };
  });
}

/**
 * Returns stretches of at least `fewest` positions that fit. Most positions are not looked at: if the last one of a
 * window does not fit, no stretch crosses it.
 */
function stretchesOf(count: number, fewest: number, fits: (at: number) => boolean, effort: Effort): Span[] {
  const found: Span[] = [];
  let start = 0;
  let looked = 0;
  while (start + fewest <= count) {
    let last = start + fewest - 1;
    while (last >= start && fits(last)) last -= 1;
    looked += start + fewest - last;
    if (last >= start) {
      start = last + 1;
      continue;
    }
    let end = start + fewest;
    while (end < count && fits(end)) end += 1;
    looked += end - start;
    found.push({ start, end });
    start = end + 1;
  }
  effort.spend(looked);
  return found;
}

function joined({ values, bits, first }: Written, runs: readonly Run[], effort: Effort): Uint8Array {
  const last = runs.at(-1);
  const made = new Uint8Array(last === undefined ? 0 : last.at + last.end - last.start);
  for (const { start, end, at } of runs)
    for (let from = start; from < end; from += 1) made[at + from - start] = byteAt(values, bits, first, from);
  effort.spend(made.length);
  return made;
}

function byteAt(values: Uint8Array, bits: number, first: number, index: number): number {
  const bit = 8 * index;
  const character = Math.floor(bit / bits);
  const at = first + character;
  const window = ((values[at] ?? 0) << (2 * bits)) | ((values[at + 1] ?? 0) << bits) | (values[at + 2] ?? 0);
  return (window >>> (3 * bits - 8 - (bit - character * bits))) & 255;
}

/** Maps the position of a kept byte to its position among all bytes. */
function sourceOf(runs: readonly Run[], kept: number): number {
  let low = 0;
  let high = runs.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((runs[middle]?.at ?? 0) <= kept) low = middle;
    else high = middle - 1;
  }
  const run = runs[low];
  return run === undefined ? kept : run.start + kept - run.at;
}

const LARGEST = 255;

/**
 * Decodes stretches of at least `fewest` numbers, as programs print arrays of bytes. A number that is no byte gives a
 * zero, and so does the gap between stretches.
 */
export function bytesFromNumbers(text: Uint8Array, fewest: number, effort: Effort): Derived | undefined {
  const stretches = stretchesOf(text.length, 2 * fewest - 1, (at) => !isLetter(text[at] ?? 0), effort);
  if (stretches.length === 0) return undefined;
  const most = stretches.reduce((sum, { start, end }) => sum + Math.ceil((end - start) / 2) + 1, 0);
  effort.spend(most);
  return derived(most, (made, watch) => read(text, stretches, made, watch));
}

/** @returns how many bytes were made */
function read(text: Uint8Array, stretches: readonly Span[], made: Uint8Array, watch?: Watch): number {
  let length = 0;
  for (const { start, end } of stretches) {
    let at = start;
    while (at < end) {
      const first = at;
      let number = 0;
      while (at < end && isDigit(text[at] ?? 0)) {
        number = Math.min(number * 10 + (text[at] ?? 0) - 48, LARGEST + 1);
        at += 1;
      }
      if (at === first) {
        at += 1;
        continue;
      }
      made[length] = number > LARGEST ? 0 : number;
      watch?.saw(length, 1, first, at);
      length += 1;
    }
    made[length] = 0;
    length += 1;
  }
  return length;
}

export function isDigit(byte: number): boolean {
  return byte >= 48 && byte <= 57;
}

export function isLetter(byte: number): boolean {
  const small = byte | 32;
  return small >= 97 && small <= 122;
}

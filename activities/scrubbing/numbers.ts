/** Decodes bytes that were written as a list of numbers, as programs print arrays of bytes. */
import { type Derived, type Effort, type Span, Watch } from './spans.ts';

const LARGEST = 255;

/**
 * Decodes stretches of at least `fewest` numbers. A number that is no byte gives a zero, and so does the gap between
 * stretches.
 */
export function bytesFromNumbers(text: Uint8Array, fewest: number, effort: Effort): Derived | undefined {
  const stretches = stretchesIn(text, 2 * fewest - 1, effort);
  if (stretches.length === 0) return undefined;
  const made = new Uint8Array(stretches.reduce((sum, { start, end }) => sum + Math.ceil((end - start) / 2) + 1, 0));
  effort.spend(made.length);
  const length = read(text, stretches, made);
  const locate = (spans: readonly Span[]): Span[] => {
    const watch = new Watch(spans);
    read(text, stretches, made, watch);
    return watch.located;
  };
  return { bytes: made.subarray(0, length), locate };
}

/** Returns stretches without letters of at least that length. Most bytes of ordinary text are not read. */
function stretchesIn(text: Uint8Array, fewest: number, effort: Effort): Span[] {
  const found: Span[] = [];
  let start = 0;
  let looked = 0;
  while (start + fewest <= text.length) {
    let last = start + fewest - 1;
    while (last >= start && !isLetter(text[last] ?? 0)) last -= 1;
    looked += start + fewest - last;
    if (last >= start) {
      start = last + 1;
      continue;
    }
    let end = start + fewest;
    while (end < text.length && !isLetter(text[end] ?? 0)) end += 1;
    looked += end - start;
    found.push({ start, end });
    start = end + 1;
  }
  effort.spend(looked);
  return found;
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

function isDigit(byte: number): boolean {
  return byte >= 48 && byte <= 57;
}

function isLetter(byte: number): boolean {
  const small = byte | 32;
  return small >= 97 && small <= 122;
}

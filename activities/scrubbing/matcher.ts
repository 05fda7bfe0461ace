/**
 * Finds any of many byte strings in one pass: what it costs does not grow with how many there are.
 *
 * 1. The first four bytes of each are looked up; what begins like one is compared.
 * 2. A long one counts as found by its first 192 bytes, and as far as it goes on from there: so a comparison is bounded.
 */
import type { Effort, Span } from './spans.ts';

/** Bytes that are looked up. Nothing shorter can be found. */
const GRAM = 4;
/** Enough to know a secret by. */
const HEAD = 192;
const FLAGS = 14;
/** 2^32 divided by the golden ratio: spreads bytes that differ little. */
const SPREAD = 0x9e3779b1;

const { imul } = Math;

export interface Matcher {
  /** Length of the shortest needle; Infinity where there is none. */
  readonly shortest: number;
  scan(bytes: Uint8Array, effort: Effort): Span[];
}

interface Needle {
  readonly bytes: Uint8Array;
  readonly index: number;
}

export function createMatcher(wanted: Iterable<Uint8Array>): Matcher {
  const unique = new Map<string, Uint8Array>();
  for (const bytes of wanted) if (bytes.length >= GRAM) unique.set(Buffer.from(bytes).toString('latin1'), bytes);
  const needles = [...unique.values()].map((bytes, index): Needle => ({ bytes, index }));
  const flags = new Uint8Array(1 << FLAGS);
  const byGram = new Map<number, Needle[]>();
  for (const needle of needles) {
    const gram = gramOf(needle.bytes);
    flags[placeOf(gram)] = 1;
    const same = byGram.get(gram);
    if (same === undefined) byGram.set(gram, [needle]);
    else same.push(needle);
  }
  const shortest = needles.reduce((least, { bytes }) => Math.min(least, bytes.length), Infinity);

  const scan = (bytes: Uint8Array, effort: Effort): Span[] => {
    const found: Span[] = [];
    const { length } = bytes;
    if (length < shortest) return found;
    effort.spend(length);
    // Up to where each needle was found last: what repeats itself is compared once.
    const passed = new Map<number, number>();
    let gram = 0;
    for (let at = 0; at < length; at += 1) {
      gram = (gram << 8) | (bytes[at] ?? 0);
      if (flags[placeOf(gram)] === 0 || at < GRAM - 1) continue;
      const start = at - GRAM + 1;
      for (const needle of byGram.get(gram) ?? []) {
        if (start < (passed.get(needle.index) ?? 0)) continue;
        const end = start + matched(needle.bytes, bytes, start, effort);
        if (end === start) continue;
        found.push({ start, end });
        passed.set(needle.index, end);
      }
    }
    return found;
  };
  return { shortest, scan };
}

/** How much of the needle stands there; 0 where that is not enough to know it by. */
function matched(needle: Uint8Array, bytes: Uint8Array, start: number, effort: Effort): number {
  const most = Math.min(needle.length, bytes.length - start);
  const needed = Math.min(needle.length, HEAD);
  if (most < needed) return 0;
  let length = GRAM;
  while (length < most && needle[length] === bytes[start + length]) length += 1;
  effort.spend(length);
  return length < needed ? 0 : length;
}

function gramOf(bytes: Uint8Array): number {
  let gram = 0;
  for (let at = 0; at < GRAM; at += 1) gram = (gram << 8) | (bytes[at] ?? 0);
  return gram;
}

function placeOf(gram: number): number {
  return imul(gram, SPREAD) >>> (32 - FLAGS);
}

/**
 * Finds any of many byte strings in one pass; the cost does not grow with their number.
 *
 * 1. The first four bytes of each needle are looked up, and only a candidate is compared in full.
 * 2. A long needle counts as found by its first 192 bytes, as far as it goes on from there, so that a comparison is
 *    bounded.
 */
import type { Effort, Span } from './spans.ts';

/** Bytes that are looked up; a shorter needle cannot be found. */
const GRAM = 4;
/** Bytes that suffice to recognise a secret. */
const HEAD = 192;
const FLAGS = 14;
/** 2^32 divided by the golden ratio: spreads bytes that differ little. */
const SPREAD = 0x9e3779b1;

const { imul } = Math;

export interface Matcher {
  /** Length of the shortest needle; Infinity if there is none. */
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
    // Position up to which each needle was found last: a repeated needle is compared once.
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

/** Returns how much of the needle is there; 0 if that is too little to recognise it. */
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

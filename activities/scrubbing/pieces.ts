/**
 * Collects the strings of a JSON value and says which of them are searched together. A secret that was split over
 * neighbours is found only if its parts are adjacent.
 *
 * 1. All strings and keys are searched in order. Then the values alone, the keys alone, and the values of fields of one
 *    name are joined, as in texts of several parts. The joined texts are searched only around each end, where a secret
 *    may continue in the next string.
 * 2. Numbers that are bytes are included: programs write bytes as lists of numbers.
 */
import { type Span, united, Watch } from './spans.ts';

export interface Piece {
  readonly text: string;
  readonly kind: 'key' | 'value' | 'number';
  /** Name of the field that holds it. */
  readonly name: string;
}

/** A stretch of one piece, in UTF-16 units. */
interface Segment {
  readonly piece: number;
  readonly from: number;
  readonly text: string;
}

/** Separates two segments; no form of a secret contains it. */
const BETWEEN = '\u0000';

/** Returns the pieces in document order. @param clean makes a string well-formed */
export function piecesOf(value: unknown, clean: (text: string) => string): Piece[] {
  const pieces: Piece[] = [];
  const walk = (found: unknown, name: string): void => {
    if (typeof found === 'string') pieces.push({ text: clean(found), kind: 'value', name });
    else if (isByte(found)) pieces.push({ text: String(found), kind: 'number', name });
    else if (Array.isArray(found)) for (const inner of found) walk(inner, name);
    else if (found !== null && typeof found === 'object')
      for (const [key, inner] of Object.entries(found)) {
        pieces.push({ text: clean(key), kind: 'key', name: '' });
        walk(inner, key);
      }
  };
  walk(value, '');
  return pieces;
}

/** Returns the value with its pieces replaced by `texts`, one for each. */
export function rebuilt(value: unknown, texts: readonly string[]): unknown {
  let next = 0;
  const take = (): string => {
    next += 1;
    return texts[next - 1] ?? '';
  };
  const walk = (found: unknown): unknown => {
    if (typeof found === 'string') return take();
    if (isByte(found)) return take() === String(found) ? found : 0;
    if (Array.isArray(found)) return found.map(walk);
    if (found === null || typeof found !== 'object') return found;
    // fromEntries defines own properties, so a key `__proto__` stays a key.
    return Object.fromEntries(Object.entries(found).map(([, inner]) => [take(), walk(inner)]));
  };
  return walk(value);
}

function isByte(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 255;
}

export interface JoinedPieces {
  readonly bytes: Uint8Array;
  /** Returns for each piece its part of what was found in the bytes, in UTF-16 units. @param found united */
  spansByPiece(found: readonly Span[]): ReadonlyMap<number, readonly Span[]>;
}

/** @param reach largest distance from the end of a string at which a secret may begin that continues in the next */
export function joinedPieces(pieces: readonly Piece[], reach: number): JoinedPieces {
  const segments = segmentsOf(pieces, reach);
  const text = segments.map((segment) => segment.text).join(BETWEEN);
  const bytes = Buffer.from(text, 'utf8');
  const spansByPiece: JoinedPieces['spansByPiece'] = (found) => {
    if (found.length === 0) return new Map();
    return byPiece(segments, bytes.length === text.length ? found : unitSpans(bytes, found));
  };
  return { bytes, spansByPiece };
}

function segmentsOf(pieces: readonly Piece[], reach: number): readonly Segment[] {
  const segments = pieces.map(({ text }, piece): Segment => ({ piece, from: 0, text }));
  // Without keys between them, values are adjacent already.
  if (pieces.length < 2 || pieces.every(({ kind }) => kind !== 'key')) return segments;
  const values: Segment[] = [];
  const keys: Segment[] = [];
  const byName = new Map<string, Segment[]>();
  for (const [index, { kind, name }] of pieces.entries()) {
    const whole = segments[index];
    if (whole === undefined || kind === 'number') continue;
    const ends = whole.text.length <= 2 * reach ? [whole] : endsOf(whole, reach);
    (kind === 'key' ? keys : values).push(...ends);
    if (kind === 'value') listIn(byName, name).push(...ends);
  }
  for (const list of [values, keys, ...byName.values()]) for (const segment of list) segments.push(segment);
  return segments;
}

function endsOf({ piece, text }: Segment, reach: number): Segment[] {
  const from = text.length - reach;
  return [
    { piece, from: 0, text: text.slice(0, reach) },
    { piece, from, text: text.slice(from) },
  ];
}

function unitSpans(bytes: Uint8Array, spans: readonly Span[]): readonly Span[] {
  const watch = new Watch(spans);
  let units = 0;
  for (let at = 0; at < bytes.length;) {
    const lead = bytes[at] ?? 0;
    const length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const taken = length === 4 ? 2 : 1;
    watch.saw(at, length, units, units + taken);
    units += taken;
    at += length;
  }
  return watch.located;
}

function byPiece(segments: readonly Segment[], spans: readonly Span[]): Map<number, Span[]> {
  const found = new Map<number, Span[]>();
  let begin = 0;
  let next = 0;
  for (const { piece, from, text } of segments) {
    const end = begin + text.length;
    for (let at = next; at < spans.length; at += 1) {
      const span = spans[at];
      if (span === undefined || span.start >= end) break;
      const own = { start: from + Math.max(span.start, begin) - begin, end: from + Math.min(span.end, end) - begin };
      if (own.end > own.start) listIn(found, piece).push(own);
      if (span.end <= end) next = at + 1;
    }
    begin = end + BETWEEN.length;
  }
  return new Map([...found].map(([piece, own]) => [piece, united(own)]));
}

function listIn<Key, Item>(lists: Map<Key, Item[]>, key: Key): Item[] {
  const known = lists.get(key);
  if (known !== undefined) return known;
  const list: Item[] = [];
  lists.set(key, list);
  return list;
}

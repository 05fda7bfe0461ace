/**
 * Removes secrets from a server's output, because servers echo what they are sent (INV-S1).
 *
 * 1. A secret is found in the forms that SECURITY.md lists. One that was compressed or encrypted before it comes back
 *    is not found, nor one that is written by another rule.
 * 2. The scheme before a credential ("Bearer …") is no part of the secret: the credential alone is found too.
 * 3. The strings of one value are searched together, since a secret may be split over neighbours: parts of a text, a
 *    key and its value, fields of one name. Each part of it is replaced where it stands.
 * 4. The cost is linear in the text. A large one is searched part by part where its caller can wait: a megabyte that
 *    somebody filled with encodings of a secret takes half a second, in which the process does nothing else.
 * 5. The output is well-formed Unicode: a lone surrogate has no UTF-8 form and would not survive storage unchanged.
 */
import { setImmediate } from 'node:timers/promises';
import { ALPHABETS, bytesFromNumbers, decodings, FOLDED, type Likely, SQUEEZED, valuesIn } from './alphabets.ts';
import { mayBeEscaped, unescaped } from './escapes.ts';
import { formsOf } from './forms.ts';
import { createMatcher, type Matcher } from './matcher.ts';
import { type JoinedPieces, joinedPieces, type Piece, piecesOf, rebuilt } from './pieces.ts';
import { backwards, type Derived, Effort, type Span, through, TooMuchEffort, united } from './spans.ts';

export const MASK = '[redacted]';

export interface Scrubber {
  text(value: string): string;
  /**
   * Scrubs every string in a JSON value, keys included. A number that is a byte of a secret, in a list of such numbers,
   * becomes 0.
   */
  value(value: unknown): unknown;
  /** Scrubs as `value` does, and lets the process do other work between parts of a large value. */
  largeValue(value: unknown): Promise<unknown>;
  /**
   * Scrubs bytes that are no text, in the way of `largeValue`: found secrets are overwritten instead of cut out, so
   * that offsets stay the same.
   */
  largeBytes(value: Uint8Array): Promise<Uint8Array>;
}

export function createScrubber(secrets: readonly string[]): Scrubber {
  // Made when it is first needed: its tables cost more than a short text, and a call that goes well needs one of three.
  let made: SecretSearch | undefined;
  const search = (): SecretSearch => (made ??= createSecretSearch(secrets));
  const value = (given: unknown): unknown => rebuilt(given, masked(piecesOf(given, wellFormed), search()));
  return {
    text: (given) => String(value(given)),
    value,
    largeValue: async (given) => {
      const pieces = piecesOf(given, wellFormed);
      const joined = joinedIfLong(pieces, search());
      const spans = joined?.spansByPiece(await spansByParts(joined.bytes, search()));
      return rebuilt(given, textsWithout(pieces, spans));
    },
    largeBytes: async (given) => {
      const clean = Buffer.from(given);
      for (const { start, end } of await spansByParts(given, search())) clean.fill('*', start, end);
      return clean;
    },
  };
}

/** Characters that are searched of a text of which little is shown. */
const BEGINNING = 524_288;
/** Characters at their end in which a secret may begin that ends behind them. */
const UNSURE = 65_536;

/** Scrubs a text of which at most some hundred characters are shown, whatever its length. */
export function scrubbedBeginning(scrub: Pick<Scrubber, 'text'>, text: string): string {
  const clean = scrub.text(text.slice(0, BEGINNING));
  if (text.length <= BEGINNING) return clean;
  const sure = clean.slice(0, -UNSURE);
  // Masks are shorter than what they hide.
  return sure === '' ? MASK : sure;
}

function masked(pieces: readonly Piece[], search: SecretSearch): readonly string[] {
  const joined = joinedIfLong(pieces, search);
  return textsWithout(pieces, joined?.spansByPiece(search.spansIn(joined.bytes)));
}

/** Returns undefined if no secret has room in the pieces. */
function joinedIfLong(pieces: readonly Piece[], { shortest, reach }: SecretSearch): JoinedPieces | undefined {
  const units = pieces.reduce((sum, { text }) => sum + text.length, 0);
  // A UTF-16 unit has at most three bytes.
  return units * 3 < shortest ? undefined : joinedPieces(pieces, reach);
}

function textsWithout(
  pieces: readonly Piece[],
  spans: ReadonlyMap<number, readonly Span[]> = new Map(),
): readonly string[] {
  const texts = pieces.map(({ text }) => text);
  for (const [piece, found] of spans) texts[piece] = maskedText(texts[piece] ?? '', found);
  return texts;
}

function maskedText(text: string, spans: readonly Span[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end } of spans) {
    parts.push(text.slice(from, start), MASK);
    from = end;
  }
  return [...parts, text.slice(from)].join('');
}

/** With the `u` flag a surrogate matches only if it stands alone. */
function wellFormed(value: string): string {
  return value.replaceAll(/\p{Surrogate}/gu, '\ufffd');
}

// Finds secrets in foreign text: looks, decodes (`escapes.ts`, `alphabets.ts`), and looks again, three layers deep. A
// secret is sought as written, and folded, which is blind to separators and case (`forms.ts`). The search is linear in
// time and memory: a text that takes more effort than its size allows was made to, and counts as a secret as a whole.

/** Encodings may nest this deep. The innermost may be a form that is sought itself, and so is one layer more. */
const MOST_LAYERS = 3;
/** Bytes read or written for each byte of the original: text in three layers of escapes takes half of it. */
const EFFORT_PER_BYTE = 128;
const EFFORT_AT_LEAST = 65_536;

/** Bytes that may encode one byte of a secret, save where escapes are escaped: two layers of `\u0041` take 36. */
const REACH_PER_BYTE = 12;
const LEAST_REACH = 1_024;

interface SecretSearch {
  /** Length in UTF-8 below which a text holds no secret. */
  readonly shortest: number;
  /** Bytes of a secret's writing that are searched on either side of a border between two strings. */
  readonly reach: number;
  /** Returns united spans. @param effort is added to, for callers that measure the cost */
  spansIn(bytes: Uint8Array, effort?: Effort): readonly Span[];
}

/** Bytes of a part. */
const PART = 524_288;
/** Bytes that a part has in common with the next one, at least. A secret that is written longer may show its end. */
const LEAST_OVERLAP = 65_536;

/**
 * Finds what `spansIn` finds, part by part, as far as no writing of a secret is longer than the overlap of two parts.
 * Between two parts the process does other work. Of several searches one goes on in each turn of the event loop.
 */
export async function spansByParts(
  bytes: Uint8Array,
  { reach, spansIn }: SecretSearch,
  { part = PART, overlap = Math.max(LEAST_OVERLAP, 4 * reach) } = {},
): Promise<readonly Span[]> {
  const found: Span[] = [];
  for (let from = 0; ; from += part) {
    const to = Math.min(bytes.length, from + part + overlap);
    for (const { start, end } of spansIn(bytes.subarray(from, to)))
      found.push({ start: from + start, end: from + end });
    if (to === bytes.length) return united(found);
    await nextTurn();
  }
}

/** Resolves in the last turn of the event loop that a search has taken. */
let turns: Promise<void> = Promise.resolve();

/** Waits for a turn of the event loop that no other search has: for who searches several texts one after the other. */
export async function nextTurn(): Promise<void> {
  turns = turns.then(async () => await setImmediate());
  await turns;
}

interface Sought {
  readonly written: Matcher;
  readonly decoded: Matcher;
  readonly folded: Matcher;
  readonly likely: Likely;
}

export function createSecretSearch(secrets: readonly string[]): SecretSearch {
  const forms = formsOf(secrets);
  const written = createMatcher(forms.written);
  const decoded = forms.decoded === forms.written ? written : createMatcher(forms.decoded);
  const folded = createMatcher(forms.folded);
  const fewest = Math.min(decoded.shortest, folded.shortest);
  const sought: Sought = { written, decoded, folded, likely: { bytes: likelyBytes(forms.decoded), fewest } };
  const shortest = Math.min(written.shortest, folded.shortest);
  const longest = secrets.reduce((most, secret) => Math.max(most, secret.length), 0);
  return {
    shortest,
    reach: Math.max(LEAST_REACH, REACH_PER_BYTE * longest),
    spansIn: (bytes, effort = new Effort(EFFORT_AT_LEAST + EFFORT_PER_BYTE * bytes.length)) => {
      if (bytes.length < shortest) return [];
      try {
        return look(bytes, sought, written, MOST_LAYERS, effort);
      } catch (error) {
        if (!(error instanceof TooMuchEffort)) throw error;
        return [{ start: 0, end: bytes.length }];
      }
    },
  };
}

/** @param layers that may still be decoded */
function look(bytes: Uint8Array, sought: Sought, written: Matcher, layers: number, effort: Effort): Span[] {
  let found = written.scan(bytes, effort);
  const note = (derived: Derived, spans: readonly Span[]): void => {
    if (spans.length > 0) found = found.concat(derived.locate(united(spans)));
  };
  found = found.concat(lettersOf(bytes, sought, effort));
  if (layers === 0) return united(found);
  const plain = unescaped(bytes, effort);
  if (plain !== undefined) note(plain, look(plain.bytes, sought, written, layers - 1, effort));
  if (mayBeEscaped(bytes)) {
    // Escapes may be written with separators, or backwards: they are one more layer, of which the letters are searched.
    const squeezed = valuesIn(bytes, SQUEEZED, effort);
    const reversed = through(squeezed, backwards(squeezed.bytes));
    for (const marks of [squeezed, reversed]) {
      const apart = unescaped(marks.bytes, effort);
      if (apart !== undefined) note(through(marks, apart), lettersOf(apart.bytes, sought, effort));
    }
  }
  const inner = (derived: Derived): void =>
    note(derived, look(derived.bytes, sought, sought.decoded, layers - 1, effort));
  for (const alphabet of ALPHABETS)
    for (const derived of decodings(bytes, alphabet, sought.likely, effort)) inner(derived);
  const numbers = bytesFromNumbers(bytes, sought.likely.fewest, effort);
  if (numbers !== undefined) inner(numbers);
  return united(found);
}

/** Searches blind to separators and case. */
function lettersOf(bytes: Uint8Array, { folded }: Sought, effort: Effort): Span[] {
  if (bytes.length < folded.shortest) return [];
  const letters = valuesIn(bytes, FOLDED, effort);
  const found = folded.scan(letters.bytes, effort);
  return found.length === 0 ? found : letters.locate(united(found));
}

/**
 * Marks the bytes that may occur: ASCII, in which text and all encodings are written, and other bytes of the secrets.
 */
function likelyBytes(secrets: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(256).fill(1, 0, 128);
  for (const secret of secrets) for (const byte of secret) bytes[byte] = 1;
  return bytes;
}

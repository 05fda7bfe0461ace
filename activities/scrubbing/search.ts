/**
 * Finds secrets in text or bytes of somebody else, in every form listed in SECURITY.md.
 *
 * Owns the order: look, decode, look again. Does not own forms (`forms.ts`) nor encodings (`escapes.ts`,
 * `alphabets.ts`, `numbers.ts`).
 *
 * 1. A secret is sought as written, and folded, which is blind to separators and case. The same is done in whatever can
 *    be decoded, three layers deep.
 * 2. A find is reported as a span of the original.
 * 3. The search is linear in time and memory. Only a text made to slow it takes more effort than its size allows, and
 *    such a text counts as a secret as a whole.
 */
import { ALPHABETS, decodings, FOLDED, type Likely, SQUEEZED, valuesIn } from './alphabets.ts';
import { backwards, type Derived, Effort, type Span, through, TooMuchEffort, united } from './spans.ts';
import { mayBeEscaped, unescaped } from './escapes.ts';
import { formsOf } from './forms.ts';
import { createMatcher, type Matcher } from './matcher.ts';
import { bytesFromNumbers } from './numbers.ts';

/** Encodings may nest this deep. The innermost may be a form that is sought itself, and so is one layer more. */
const MOST_LAYERS = 3;
/** Bytes read or written for each byte of the original: text in three layers of escapes takes half of it. */
const EFFORT_PER_BYTE = 128;
const EFFORT_AT_LEAST = 65_536;

/** Bytes that may encode one byte of a secret: no two layers of encodings write a byte with more characters. */
const REACH_PER_BYTE = 12;
const LEAST_REACH = 1_024;

export interface SecretSearch {
  /** Length in UTF-8 below which a text holds no secret. */
  readonly shortest: number;
  /** Bytes of a secret's writing that are searched on either side of a border between two strings. */
  readonly reach: number;
  /** Returns united spans. @param effort is added to, for callers that measure the cost */
  spansIn(bytes: Uint8Array, effort?: Effort): readonly Span[];
}

interface Sought {
  readonly written: Matcher;
  readonly decoded: Matcher;
  readonly folded: Matcher;
  readonly likely: Likely;
}

export function createSecretSearch(secrets: readonly string[]): SecretSearch {
  const forms = formsOf(secrets);
  const [written, decoded, folded] = [forms.written, forms.decoded, forms.folded].map(createMatcher);
  // Sound: three of three.
  if (written === undefined || decoded === undefined || folded === undefined) throw new Error('no matchers');
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

/**
 * Takes secrets out of what a server said, because servers echo what they are sent (INV-S1).
 *
 * Owns what is replaced, and what is looked at together. Does not own where a secret stands (`activities/scrubbing/`), nor which
 * values are secrets: the caller names them.
 *
 * 1. The forms in which a secret is found are those that SECURITY.md lists. What is compressed or encrypted before it comes back is
 *    not found, nor what is written by another rule.
 * 2. The scheme before a credential ("Bearer …") is no part of the secret: the credential alone is found too.
 * 3. The strings of one value are looked at together, since a secret may be split over neighbours: parts of a text, a key and its
 *    value, fields of one name. Each part of it is replaced where it stands.
 * 4. Cost is linear in the text.
 * 5. What comes back is well-formed Unicode: a lone surrogate has no UTF-8 form and would not survive storage unchanged.
 */
import { type Piece, piecesOf, rebuilt, spansInPieces } from '../scrubbing/pieces.ts';
import { createSecretSearch, type SecretSearch } from '../scrubbing/search.ts';
import type { Span } from '../scrubbing/spans.ts';

/** What stands in a secret's place. */
export const MASK = '[redacted]';

export interface Scrubber {
  text(value: string): string;
  /** Every string in a JSON value, keys included. A number stays one: 0, where it is a byte of a secret in a list of them. */
  value(value: unknown): unknown;
  /** Bytes that are no text: found secrets are overwritten in place of being cut out, so that offsets keep. */
  bytes(value: Uint8Array): Uint8Array;
}

export function createScrubber(secrets: readonly string[]): Scrubber {
  const search = createSecretSearch(secrets);
  const value = (given: unknown): unknown => {
    const pieces = piecesOf(given, wellFormed);
    return rebuilt(given, masked(pieces, search));
  };
  return {
    // Sound: a string is rebuilt as one.
    text: (given) => masked([{ text: wellFormed(given), kind: 'value', name: '' }], search)[0] ?? '',
    value,
    bytes: (given) => {
      const clean = Buffer.from(given);
      for (const { start, end } of search.spansIn(clean)) clean.fill('*', start, end);
      return clean;
    },
  };
}

/** The text of each piece, without secrets. */
function masked(pieces: readonly Piece[], { shortest, reach, spansIn }: SecretSearch): readonly string[] {
  const texts = pieces.map(({ text }) => text);
  const units = texts.reduce((sum, { length }) => sum + length, 0);
  // A UTF-16 unit has at most three bytes.
  if (units * 3 < shortest) return texts;
  for (const [piece, spans] of spansInPieces(pieces, reach, spansIn))
    texts[piece] = maskedText(texts[piece] ?? '', spans);
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

/** `String.prototype.toWellFormed` of ES2024. With the `u` flag a surrogate matches only where it stands alone. */
function wellFormed(value: string): string {
  return value.replaceAll(/\p{Surrogate}/gu, '\ufffd');
}

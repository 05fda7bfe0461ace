/**
 * Removes secrets from a server's output, because servers echo what they are sent (INV-S1).
 *
 * It owns what is replaced, and which strings are searched together. It does not own finding a secret
 * (`activities/scrubbing/`), nor which values are secrets: the caller names them.
 * 1. A secret is found in the forms that SECURITY.md lists. One that was compressed or encrypted before it comes back
 *    is not found, nor one that is written by another rule.
 * 2. The scheme before a credential ("Bearer …") is no part of the secret: the credential alone is found too.
 * 3. The strings of one value are searched together, since a secret may be split over neighbours: parts of a text, a
 *    key and its value, fields of one name. Each part of it is replaced where it stands.
 * 4. The cost is linear in the text.
 * 5. The output is well-formed Unicode: a lone surrogate has no UTF-8 form and would not survive storage unchanged.
 */
import { type Piece, piecesOf, rebuilt, spansInPieces } from '../scrubbing/pieces.ts';
import { createSecretSearch, type SecretSearch } from '../scrubbing/search.ts';
import type { Span } from '../scrubbing/spans.ts';

/** Text that replaces a secret. */
export const MASK = '[redacted]';

export interface Scrubber {
  text(value: string): string;
  /**
   * Scrubs every string in a JSON value, keys included. A number that is a byte of a secret, in a list of such numbers,
   * becomes 0.
   */
  value(value: unknown): unknown;
  /** Scrubs bytes that are no text: found secrets are overwritten instead of cut out, so that offsets stay the same. */
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

/** Returns the text of each piece, without secrets. */
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

/**
 * Does what `String.prototype.toWellFormed` of ES2024 does. With the `u` flag a surrogate matches only if it stands
 * alone.
 */
function wellFormed(value: string): string {
  return value.replaceAll(/\p{Surrogate}/gu, '\ufffd');
}

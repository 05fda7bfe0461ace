/**
 * Text of models, tools and servers is made inert here, before a person reads it.
 *
 * 1. Nothing invisible stays invisible: control, zero-width, bidirectional and tag characters show as `\u{…}`.
 * 2. Nothing moves or covers its neighbours: in `visible` text, right-to-left letters and combining marks show so, too.
 *    Terminals disagree on both, and on isolates (docs/adr/0069).
 * 3. Nothing is markup: Markdown and HTML characters are escaped.
 * 4. Truncation is marked and says how much is missing.
 */
import { byteLength } from './canonical.ts';

// Control, format, private, unassigned and half characters (general category C), line and paragraph separators,
// whatever Unicode lets a font ignore (variation selectors among them), the blank Braille pattern, and every space that
// is not U+0020.
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
// Blocks that are right-to-left by default (UAX #9, `DerivedBidiClass.txt`), as JavaScript knows no such property.
export const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/gu;
// Marks and other extenders, and the Hangul parts that join the one before them.
const COMBINING = /[\p{M}\p{Grapheme_Extend}\u1160-\u11ff\ud7b0-\ud7fb]/gu;
const MARKUP = /[\\`*_{}[\]()#+\-.!|<>&~$:@]/g;

/** For terminals, logs and summaries: no line breaks, and each character by itself, in the order of the text. */
export function visible(text: string): string {
  return unhidden(text).replaceAll(RIGHT_TO_LEFT, numbered).replaceAll(COMBINING, numbered);
}

/** Escapes only what is invisible: for models, files, and people's text that stands alone in its lines. */
export function unhidden(text: string): string {
  return text.replaceAll(INVISIBLE, numbered);
}

function numbered(char: string): string {
  // Sound: a match of a Unicode regular expression is never empty.
  const point = char.codePointAt(0) as number;
  return `\\u{${point.toString(16)}}`;
}

/** Quotes foreign text in a line of ours. All but the first of several spaces are escaped: they would break it. */
export function quoted(text: string): string {
  return `"${spaced(text.replaceAll(/["\\]/g, '\\$&'))}"`;
}

/** Does the same without quotes, for text that ends its line. */
export function spaced(text: string): string {
  return visible(text).replaceAll(/ {2,}/g, (run) => ` ${'\\u{20}'.repeat(run.length - 1)}`);
}

/** A foreign name beside words of ours: a single word as it is, else quoted, so that it passes for no more. */
export function named(name: string): string {
  return /^[^\s"\\,;()]+$/u.test(name) && visible(name) === name ? name : quoted(name);
}

/** For Markdown surfaces. Browsers keep isolates: letters keep their script, and move nothing outside of their text. */
export function markdown(text: string): string {
  const shown = unhidden(text).replaceAll(MARKUP, (char) => `&#${char.charCodeAt(0)};`);
  // All isolates of the text itself are escaped by now, so none of them ends ours.
  return shown.search(RIGHT_TO_LEFT) === -1 ? shown : `\u2068${shown}\u2069`;
}

/**
 * Returns a code span (CommonMark §6.1), whose text no renderer changes. Some renderers replace quotes and dashes
 * elsewhere, and an approver must read `--force` as it is. The fence is longer than any run of backticks inside.
 */
export function codeSpan(text: string): string {
  const runs = text.match(/`+/g) ?? [];
  const fence = '`'.repeat(Math.max(0, ...runs.map(({ length }) => length)) + 1);
  return `${fence} ${visible(text)} ${fence}`;
}

/** Returns at most `most` whole code points of `text`, with a mark that counts the missing ones. */
export function bounded(text: string, most: number): string {
  const points = [...text];
  return points.length <= most ? text : `${points.slice(0, most).join('')}… (${points.length - most} more characters)`;
}

/** Returns at most `most` UTF-8 bytes of `text` in whole code points, with a mark if something was cut. */
export function boundedBytes(text: string, most: number): string {
  if (byteLength(text) <= most) return text;
  const mark = '…';
  let kept = '';
  let room = most - byteLength(mark);
  for (const char of text) {
    room -= byteLength(char);
    if (room < 0) break;
    kept += char;
  }
  return kept + mark;
}

/**
 * Text of models, tools and servers, made inert before a person reads it.
 *
 * 1. Nothing invisible stays invisible: control, zero-width, bidirectional and tag characters show as `\u{…}`.
 * 2. Nothing is markup: Markdown and HTML characters are escaped.
 * 3. Truncation is marked and says how much is missing.
 */
import { byteLength } from './canonical.ts';

// Control, format, private, unassigned and half characters (general category C), line and paragraph separators, whatever Unicode
// lets a font ignore (variation selectors among them), the blank Braille pattern, and every space that is not U+0020.
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
const MARKUP = /[\\`*_{}[\]()#+\-.!|<>&~$:@]/g;

/** For plain surfaces: terminals, logs, summaries. Keeps line breaks out. */
export function visible(text: string): string {
  return text.replaceAll(INVISIBLE, (char) => {
    // Sound: a match of a Unicode regular expression is never empty.
    const point = char.codePointAt(0) as number;
    return `\\u{${point.toString(16)}}`;
  });
}

/**
 * Text of others in a line of ours, between marks that show where it ends. Of several spaces each shows after the first: where a
 * terminal breaks the line, they would set apart what follows as if it were a line of its own.
 */
export function quoted(text: string): string {
  return `"${spaced(text.replaceAll(/["\\]/g, '\\$&'))}"`;
}

/** The same where nothing of ours follows: the line ends with it. */
export function spaced(text: string): string {
  return visible(text).replaceAll(/ {2,}/g, (run) => ` ${'\\u{20}'.repeat(run.length - 1)}`);
}

/** A name of others beside words of ours: as it is where it is one word, else quoted, so that it passes for no more than a name. */
export function named(name: string): string {
  return /^[^\s"\\,;()]+$/u.test(name) && visible(name) === name ? name : quoted(name);
}

/** For Markdown surfaces such as Temporal's current details. */
export function markdown(text: string): string {
  return visible(text).replaceAll(MARKUP, (char) => `&#${char.charCodeAt(0)};`);
}

/**
 * The same as a code span (CommonMark §6.1), whose text no renderer may touch: some replace quotes and dashes elsewhere, and
 * an approver must read `--force` as it is. The fence is longer than any run of backticks inside.
 */
export function codeSpan(text: string): string {
  const runs = text.match(/`+/g) ?? [];
  const fence = '`'.repeat(Math.max(0, ...runs.map(({ length }) => length)) + 1);
  return `${fence} ${visible(text)} ${fence}`;
}

/** At most `most` characters of `text`, whole code points, with a mark of what was cut. */
export function bounded(text: string, most: number): string {
  const points = [...text];
  return points.length <= most ? text : `${points.slice(0, most).join('')}… (${points.length - most} more characters)`;
}

/** At most `most` UTF-8 bytes of `text`, whole code points, with a mark where something was cut. */
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

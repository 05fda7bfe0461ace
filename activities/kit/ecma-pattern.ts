/**
 * Writes a pattern of JSON Schema, which is ECMAScript's with the flag `u` (JSON Schema 2020-12, section 6.4 of Core),
 * as one that RE2 reads in the same way.
 *
 * 1. What the two read differently is rewritten, or the pattern is refused: it never means something else. What RE2
 *    does not know, it refuses itself.
 */
import { RE2JS } from 're2js';

/** `WhiteSpace` and `LineTerminator` of ECMAScript, and all other code points, as members of a class. RE2 has ASCII. */
const SPACES = '\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}';
const OTHERS =
  '\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}' +
  '\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}';
const ANY = '[^\\n\\r\\x{2028}\\x{2029}]';

/** What only RE2 knows: anchors, quoting, a byte, bells, short and negated properties, and braced numbers. */
const FOREIGN_ESCAPE = /^\\(?:[AzZQECa]|[pP](?!\{[^^])|x\{)/;
/** What may follow `(?`: the others set flags, or name a group as Python does. */
const KNOWN_GROUP = /^\(\?(?::|=|!|<)/;
/** One escape: two halves of a code point, a number, a property, a control, or one character. */
const ESCAPE =
  /^\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u\{[\da-fA-F]+\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|[pP]\{[^}]*\}|c[A-Za-z]|[^])/u;
const CLASS_ESCAPE = /^\\[dDwWsSpP]/;

/** @returns undefined if there is no such pattern */
export function re2Of(pattern: string): string | undefined {
  let made = '';
  for (let at = 0; at < pattern.length;) {
    const rest = pattern.slice(at);
    if (rest.startsWith('[')) {
      const read = classOf(rest);
      if (read === undefined) return undefined;
      made += read.made;
      at += read.length;
      continue;
    }
    if (rest.startsWith('(?') && !KNOWN_GROUP.test(rest)) return undefined;
    const atom = atomOf(rest);
    if (atom === undefined) return undefined;
    made += atom === '.' ? ANY : isSpace(atom) ? `[${spaceOf(atom)}]` : joined(atom);
    at += atom.length;
  }
  return RE2JS.translateRegExp(made);
}

interface ReadClass {
  readonly made: string;
  /** UTF-16 units read. */
  readonly length: number;
}

/** @param text begins with a class */
function classOf(text: string): ReadClass | undefined {
  const opening = text.startsWith('[^') ? '[^' : '[';
  let made = opening;
  let at = opening.length;
  while (at < text.length && text[at] !== ']') {
    const atom = atomOf(text.slice(at));
    // RE2 reads names of classes of its own.
    if (atom === undefined || text.startsWith('[:', at)) return undefined;
    at += atom.length;
    const isRange = text[at] === '-' && at + 1 < text.length && text[at + 1] !== ']';
    if (!isRange) {
      made += member(atom);
      continue;
    }
    const end = atomOf(text.slice(at + 1));
    // No range begins or ends with a class.
    if (end === undefined || CLASS_ESCAPE.test(atom) || CLASS_ESCAPE.test(end)) return undefined;
    made += `${member(atom)}-${member(end)}`;
    at += 1 + end.length;
  }
  // RE2 refuses a class without an end.
  return { made: `${made}${text.slice(at, at + 1)}`, length: Math.min(text.length, at + 1) };
}

function member(atom: string): string {
  if (isSpace(atom)) return spaceOf(atom);
  return atom === '-' || atom === '[' ? `\\${atom}` : joined(atom);
}

/** Returns a character or an escape; undefined if RE2 reads it otherwise. */
function atomOf(text: string): string | undefined {
  if (FOREIGN_ESCAPE.test(text)) return undefined;
  return ESCAPE.exec(text)?.[0] ?? String.fromCodePoint(text.codePointAt(0) ?? 0);
}

function isSpace(atom: string): boolean {
  return atom === '\\s' || atom === '\\S';
}

function spaceOf(atom: string): string {
  return atom === '\\s' ? SPACES : OTHERS;
}

/** Two halves of a code point are one. */
function joined(atom: string): string {
  const halves = /^\\u([\da-fA-F]{4})\\u([\da-fA-F]{4})$/.exec(atom);
  if (halves === null) return atom;
  const [high, low] = [Number.parseInt(halves[1] ?? '', 16), Number.parseInt(halves[2] ?? '', 16)];
  return `\\x{${String.fromCharCode(high, low).codePointAt(0)?.toString(16) ?? ''}}`;
}

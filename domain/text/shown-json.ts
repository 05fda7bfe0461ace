/**
 * Writes a JSON value for a person who decides on it.
 *
 * 1. Every key and every value is there, in the order of the canonical form. Only long strings are cut, each by itself,
 *    so nothing hides behind a long one.
 * 2. A cut string says how long it is, and its sha256 begins. That stands outside of its quotes, where no string can
 *    write.
 * 3. The text is `visible` (`escape.ts`): each character by itself, and in the order of the value.
 */
import { canonicalJson, sha256Hex } from './canonical.ts';
import { bounded, spaced } from './escape.ts';

export interface ShownJson {
  readonly text: string;
  readonly cuts: number;
}

const DIGEST_CHARACTERS = 12;
/** Characters of one string among arguments, and of all of them, where a line lists a call. */
const LISTED_STRING = 120;
const LISTED_CHARACTERS = 500;

/** Writes the value into one line. @param most characters of one string */
export function jsonLine(value: unknown, most = Number.POSITIVE_INFINITY): ShownJson {
  let cuts = 0;
  const written = (text: string): string => {
    const points = [...text];
    if (points.length <= most) return spaced(JSON.stringify(text));
    cuts += 1;
    const kept = spaced(JSON.stringify(points.slice(0, most).join('')));
    return `${kept}…(${points.length} characters, sha256 ${sha256Hex(text).slice(0, DIGEST_CHARACTERS)})`;
  };
  const line = (inner: unknown): string => {
    if (typeof inner === 'string') return written(inner);
    if (Array.isArray(inner)) return `[${inner.map(line).join(',')}]`;
    if (typeof inner !== 'object' || inner === null) return canonicalJson(inner);
    return `{${membersOf(inner)
      .map(([key, member]) => `${written(key)}:${line(member)}`)
      .join(',')}}`;
  };
  return { text: line(value), cuts };
}

/**
 * Writes the value into one line if that is short, or else each member of the outermost object into a line of its own.
 * @param most characters of one string
 * @param width characters of a line that counts as short
 */
export function jsonLines(value: object, most: number | undefined, width: number): ShownJson {
  const whole = jsonLine(value, most);
  if (whole.text.length <= width) return whole;
  const lines = membersOf(value).map(([key, member]) => `  ${jsonLine({ [key]: member }, most).text.slice(1, -1)}`);
  return { ...whole, text: `{\n${lines.join(',\n')}\n}` };
}

/** In the order of the canonical form (RFC 8785), to which the digest belongs. */
function membersOf(value: object): [string, unknown][] {
  return Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
}

/** Writes arguments into one line of a list. A long string is cut by itself, and hides none of those after it. */
export function argumentsLine(value: object): string {
  return bounded(jsonLine(value, LISTED_STRING).text, LISTED_CHARACTERS);
}

/**
 * Counts what makes values in JSON: `{`, `[` and `,` outside of strings. A text of any length has none of its own, and the values of a
 * body are at most one more.
 *
 * Pure. Owns the way through chunks. Does not own how many are too many (`byte-cap.ts`).
 * 1. Never fewer than what `JSON.parse` makes before it fails: it holds that much at once, however the text goes on.
 * 2. The lines of an event stream are counted as they come. A line that ends ends a string, too: JSON has no line end in one, so that
 *    what other fields of an event hold does not hide what is counted. There each line counts as well: the parser of the stream makes
 *    something of every one, of an unknown field an error.
 */

const OUTSIDE = 0;
const IN_STRING = 1;
const ESCAPED = 2;
const MARK = 4;

/** State and byte → next state, with `MARK` where the byte counts. One look-up a byte: some 2 ns. */
const OF_BODIES = steps(0);
const OF_STREAMS = steps(MARK);

export interface MarkCounter {
  /** Those in this part of the body, which goes on where the last one ended. */
  count(part: Uint8Array): number;
}

export function countMarks(of: 'body' | 'event stream'): MarkCounter {
  const table = of === 'body' ? OF_BODIES : OF_STREAMS;
  let state = OUTSIDE;
  return {
    count(part) {
      let marks = 0;
      let now = state;
      for (let at = 0; at < part.length; at += 1) {
        // Sound: both indices are within their arrays.
        const step = table[(now << 8) | (part[at] as number)] as number;
        now = step & 3;
        marks += step >> 2;
      }
      state = now;
      return marks;
    },
  };
}

function steps(lineEnd: 0 | typeof MARK): Uint8Array {
  const table = new Uint8Array(3 * 256);
  const set = (state: number, bytes: string, next: number): void => {
    for (const byte of Buffer.from(bytes)) table[(state << 8) | byte] = next;
  };
  set(OUTSIDE, '"', IN_STRING);
  set(OUTSIDE, '{[,', OUTSIDE | MARK);
  set(OUTSIDE, '\n\r', OUTSIDE | lineEnd);
  // In both states: what is escaped is one byte of the string, and the rest of it too (`\u0022`).
  table.fill(IN_STRING, IN_STRING << 8);
  set(IN_STRING, '\\', ESCAPED);
  set(IN_STRING, '"', OUTSIDE);
  set(IN_STRING, '\n\r', OUTSIDE | lineEnd);
  set(ESCAPED, '\n\r', OUTSIDE | lineEnd);
  return table;
}

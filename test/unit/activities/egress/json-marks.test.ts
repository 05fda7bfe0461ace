/** How many values a JSON text can make is known of its bytes, before anything is parsed. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { countMarks } from '../../../../activities/egress/fetch.ts';

function marksOf(...parts: readonly (string | Uint8Array)[]): number {
  const counter = countMarks('body');
  return parts.reduce((sum, part) => sum + counter.count(Buffer.from(part)), 0);
}

function valuesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum: number, inner) => sum + valuesIn(inner), 1);
}

describe('marks of JSON', () => {
  test.each([
    ['{}', 1],
    ['[1,2,[3]]', 4],
    ['{"a":1,"b":{"c":[]}}', 4],
    ['"a, [b], {c}"', 0],
    [String.raw`"a\",{[,"`, 0],
    [String.raw`["\\",","]`, 2],
    [String.raw`["\\\",",1]`, 2],
    [String.raw`["\u0022,\u005c",1]`, 2],
    ['["ä, 😀, ö",1]', 2],
    ['"a, b\n,[', 2],
    ['"a\\\r\n,[', 2],
  ])('%s has %i', (text, marks) => {
    expect(marksOf(text)).toBe(marks);
    // Wherever the network cuts it.
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at += 1)
      expect(marksOf(bytes.subarray(0, at), bytes.subarray(at))).toBe(marks);
    expect(marksOf(...[...bytes].map((byte) => Uint8Array.of(byte)))).toBe(marks);
  });

  test('no value is made that is not counted, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // Less what is not the same value when it is read: `-0`, or a key twice.
        const json = JSON.stringify(value);
        const read: unknown = JSON.parse(json);
        expect(marksOf(json) + 1).toBeGreaterThanOrEqual(valuesIn(read));
        expect(marksOf(JSON.stringify(read, null, '\t'))).toBe(marksOf(JSON.stringify(read)));
        expect(marksOf(JSON.stringify(json))).toBe(0);
      }),
    );
  });

  test('bytes that are no UTF-8 hide no quote: a decoder takes them for one character and reads on', () => {
    const cut = Buffer.concat([Buffer.from('["'), Buffer.from([0xf0]), Buffer.from('",1,2]')]);
    expect(JSON.parse(cut.toString('utf8'))).toEqual(['\ufffd', 1, 2]);
    expect(marksOf(cut)).toBe(3);
  });

  test('of an event stream each line is one more, wherever it ends', () => {
    const lines = 'id: "\na\r: "\\\r\ndata: {"a":"b"}\n\n';
    const bytes = Buffer.from(lines);
    expect(marksOf(lines)).toBe(1);
    for (const size of [1, 3, 100]) {
      const counter = countMarks('event stream');
      let marks = 0;
      for (let at = 0; at < bytes.length; at += size) marks += counter.count(bytes.subarray(at, at + size));
      expect(marks).toBe(7);
    }
  });
});

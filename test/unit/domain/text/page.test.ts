/** Query answers stay under the size of one Temporal payload. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { PAGE_BYTES, pageOf } from '../../../../domain/text/page.ts';
import { forAll } from '../../../support/for-all.ts';

describe('page', () => {
  test('holds as many items as fit, from the first on', () => {
    // Each is written with two quotes, and a comma between them.
    expect(pageOf(['aaaa', 'bbbb', 'cccc'], 13)).toEqual(['aaaa', 'bbbb']);
    expect(pageOf(['aaaa', 'bbbb', 'cccc'], 12)).toEqual(['aaaa']);
    expect(pageOf(['aaaa', 'bbbb'])).toEqual(['aaaa', 'bbbb']);
    expect(pageOf([])).toEqual([]);
  });

  test('holds one item even if it is too large, so that a reader always gets on', () => {
    expect(pageOf(['a'.repeat(50), 'b'], 10)).toEqual(['a'.repeat(50)]);
  });

  test('is measured in bytes, as Temporal measures it: three for a Chinese character', () => {
    const han = Array.from({ length: 6 }, () => '\u6f22'.repeat(100_000));
    expect(pageOf(han).length).toBe(3);
    expect(Buffer.byteLength(JSON.stringify(pageOf(han)))).toBeLessThanOrEqual(PAGE_BYTES);
  });

  test('reading page after page gives every item once, in order', () => {
    forAll(fc.array(fc.string({ maxLength: 30 })), fc.integer({ min: 1, max: 60 }), (items, most) => {
      const read: string[] = [];
      // At most one reading per item: a reader always gets on.
      for (const _item of items) read.push(...pageOf(items.slice(read.length), most));
      expect(read).toEqual(items);
    });
  });

  test('is half of what one payload may hold', () => {
    expect(PAGE_BYTES).toBe(1_048_576);
  });
});

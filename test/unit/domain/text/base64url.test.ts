/** One spelling for the same bytes: what is signed cannot be written in another way (D-1). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fromBase64url, utf8Text } from '../../../../domain/text/canonical.ts';

test('reads what Node writes', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(fromBase64url(Buffer.from(bytes).toString('base64url'))).toEqual(Uint8Array.from(bytes));
    }),
  );
});

test.each([
  ['padding', 'YQ=='],
  ['the other alphabet', '+/+/'],
  ['a length that no bytes have', 'A'],
  ['bits that stand for nothing', 'YR'],
  ['white space', 'YW Jj'],
])('refuses %s', (_what, text) => {
  expect(fromBase64url(text)).toBeUndefined();
});

test('reads UTF-8, and nothing else', () => {
  fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (text) => expect(utf8Text(Buffer.from(text))).toBe(text)));
  expect(utf8Text(Uint8Array.of(0xff))).toBeUndefined();
  expect(utf8Text(Uint8Array.of(0xc0, 0x80))).toBeUndefined();
});

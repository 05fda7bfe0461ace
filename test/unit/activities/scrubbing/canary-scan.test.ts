// The scan by which tests of INV-S1 look for secrets: what it does not find, nobody does.
import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { CanaryScanner } from '../../../support/canary/scan.ts';

const VALUE = 'canary-0123456789-abcdefghijklmnop';
const OTHER = 'canary-9876543210-ponmlkjihgfedcba';
const scanner = new CanaryScanner([
  { name: 'one', value: VALUE },
  { name: 'two', value: OTHER },
]);

function foundIn(content: Uint8Array | string): readonly string[] {
  return [...new Set(scanner.scan('here', content).map(({ canary }) => canary))].sort();
}

test.each([
  ['alone', VALUE],
  ['at the first byte', `${VALUE} and more`],
  ['at the last byte', `before ${VALUE}`],
  ['behind its own beginning', `canary-0123${VALUE}`],
  ['behind a byte that is no text', Buffer.concat([Buffer.from([0, 255, 99]), Buffer.from(VALUE)])],
])('a value is found %s (INV-S1)', (_, content) => {
  expect(foundIn(content)).toEqual(['one']);
});

test('two values that begin alike are both found, also where one follows the other at once (INV-S1)', () => {
  expect(foundIn(VALUE + OTHER)).toEqual(['one', 'two']);
});

test('a value is found at every place of a text (INV-S1)', () => {
  const text = randomBytes(200);
  for (let at = 0; at <= text.length; at += 1) {
    const content = Buffer.concat([text.subarray(0, at), Buffer.from(VALUE), text.subarray(at)]);
    expect({ at, found: foundIn(content) }).toEqual({ at, found: ['one'] });
  }
});

test('half of a value at the end of a page is found, and nothing in a text that has none (INV-S1)', () => {
  expect(foundIn(`page ${VALUE.slice(0, VALUE.length / 2)}`)).not.toEqual([]);
  for (const nothing of ['', 'c', 'ca', 'can', 'canary-', randomBytes(2_000)]) expect(foundIn(nothing)).toEqual([]);
});

test('a value that is too short to be looked for is refused', () => {
  expect(() => new CanaryScanner([{ name: 'short', value: 'ab' }])).toThrow('short is too short to be looked for');
});

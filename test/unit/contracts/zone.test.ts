/** Fields in which workers prove what they write. */
import { expect, test } from '@jest/globals';
import { fieldOf, UNKNOWN_KEY_FIELD } from '../../../contracts/zone.ts';

const keyOf = (length: number): string | undefined =>
  fieldOf({ metadata: { [UNKNOWN_KEY_FIELD]: Buffer.alloc(length, 'k') } }, UNKNOWN_KEY_FIELD);

test('a field that somebody has made too long to be read counts as none', () => {
  expect(keyOf(20)).toBe('k'.repeat(20));
  expect(keyOf(500_000)).toBeUndefined();
  expect(fieldOf(undefined, UNKNOWN_KEY_FIELD)).toBeUndefined();
});

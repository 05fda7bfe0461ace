/** Lists for one search attribute: one that is too long would stop the run at its first upsert. */
import { expect, test } from '@jest/globals';
import { byteLength } from '../../../../domain/text/canonical.ts';
import { listedWithin } from '../../../../domain/views/temporal-ui.ts';

test('a short list is kept, each value once and in order', () => {
  expect(listedWithin(['b', 'a', 'b'])).toEqual(['b', 'a']);
});

test('a long one is cut to what Temporal takes for one value, whole values only', () => {
  const names = Array.from({ length: 32 }, (_, index) => `${'é'.repeat(31)}${index}`);
  const kept = listedWithin(names);
  expect(kept).toEqual(names.slice(0, kept.length));
  expect(byteLength(JSON.stringify(kept))).toBeLessThanOrEqual(2_048);
  expect(byteLength(JSON.stringify([...kept, names[kept.length]]))).toBeGreaterThan(2_000);
});

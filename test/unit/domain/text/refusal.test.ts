import { expect, test } from '@jest/globals';
import { isRefusal, refuse } from '../../../../domain/text/refusal.ts';

test('a refusal is told from every other value', () => {
  expect(isRefusal(refuse('CALL_UNKNOWN', 'There is no such call.'))).toBe(true);
  for (const other of [undefined, null, 'refuse', {}, { kind: 'accept' }]) expect(isRefusal(other)).toBe(false);
});

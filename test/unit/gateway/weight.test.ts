/** What is kept within bytes is weighed by what it takes in memory, whatever its text is like. */
import { expect, test } from '@jest/globals';
import { weightOf } from '../../../gateway/cache/weight.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { parsedBytes } from '../../support/heap.ts';

const MANY = 50_000;

function list(item: (index: number) => string, length = MANY): string {
  return `[${Array.from({ length }, (_, index) => item(index)).join(',')}]`;
}

const name = (index: number): string => `n${index.toString(36)}`;

test.each<[string, string]>([
  ['empty objects', list(() => '{}')],
  ['empty lists', list(() => '[]')],
  ['lists in lists', list(() => `${'['.repeat(100)}${']'.repeat(100)}`, MANY / 100)],
  ['objects in objects', list(() => `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`, MANY / 100)],
  ['short texts', list((index) => `"${name(index)}"`)],
  ['names that each object has for itself', list((index) => `{"${name(index)}":{}}`)],
  ['one object with many names', `{${list((index) => `"${name(index)}":1`).slice(1, -1)}}`],
  ['a long text in Latin-1', JSON.stringify('x'.repeat(2_000_000))],
  ['a long text in another script', JSON.stringify('ж'.repeat(2_000_000))],
  ['requests', list((index) => JSON.stringify(approvalRequest({ path: name(index), bytes: index })), 1_000)],
])('%s', async (_, text) => {
  const taken = await parsedBytes(text);
  const weight = weightOf(JSON.parse(text));
  expect(weight).toBeGreaterThan(taken * 0.7);
  expect(weight).toBeLessThan(taken * 6);
});

test('a value may be nested deeper than calls', () => {
  const depth = 100_000;
  expect(weightOf(JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`))).toBe(64 * depth);
});

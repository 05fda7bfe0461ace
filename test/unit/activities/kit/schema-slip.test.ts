/** Slips in a schema that a caller wrote: no value fits one, and the other shows only when a value leads to it. */
import { expect, test } from '@jest/globals';
import { slipIn } from '../../../../activities/kit/json-schema.ts';

test.each([
  [{ type: 'objct' }, 'has type "objct", which is none of '],
  [{ properties: { a: { type: ['string', 'nul'] } } }, 'has type "nul"'],
  [{ $ref: '#/nope' }, 'refers to #/nope, which it does not have'],
  [{ $defs: { a: {} }, items: { $ref: '#/$defs/b' } }, 'refers to #/$defs/b'],
  [{ $ref: '#/%' }, 'refers to #/%,'],
  [{ $ref: '#/%C3' }, 'refers to #/%C3,'],
  [{ $defs: { a: 1 }, $ref: '#/$defs/a' }, 'refers to #/$defs/a'],
])('%j has one', (schema, words) => {
  expect(slipIn(schema)).toMatch(new RegExp(`^${words.replaceAll('$', String.raw`\$`)}`));
});

test.each([
  { $ref: '#' },
  { $defs: { 'a/b': { type: 'integer' }, ä: true }, anyOf: [{ $ref: '#/$defs/a~1b' }, { $ref: '#/$defs/%C3%A4' }] },
  { anyOf: [{ type: 'string' }], items: { $ref: '#/anyOf/0' } },
  { properties: { type: { const: { type: 'x' } }, $ref: { type: 'string' } } },
  { items: { $id: 'https://example.com/a', $ref: '#/nope' } },
])('%j has none', (schema) => {
  expect(slipIn(schema)).toBeUndefined();
});

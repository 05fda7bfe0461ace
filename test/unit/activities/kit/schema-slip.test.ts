/** Slips in a schema that a caller wrote: a type that is none, or a reference that leads nowhere. */
import { expect, test } from '@jest/globals';
import { slipIn } from '../../../../activities/kit/json-schema.ts';

test.each([
  [{ type: 'objct' }, 'has type "objct", which is none of '],
  [{ properties: { a: { items: { type: ['string', 'nul'] } } } }, 'has type "nul"'],
  [{ $defs: { a: { type: 'x' } }, allOf: [{ $ref: '#/$defs/a' }] }, 'has type "x"'],
  [{ $ref: '#/nope' }, 'refers to #/nope, which is not there'],
  [{ $ref: '#name' }, 'refers to #name,'],
  [{ $ref: 'https://x.example/none.json' }, 'refers to https://x.example/none.json,'],
  [{ default: { a: {} }, $ref: '#/default/a' }, 'refers to #/default/a,'],
  [{ $defs: { a: {} }, items: { $ref: '#/$defs/b' } }, 'refers to #/$defs/b,'],
  [{ anyOf: [{ type: 'string' }, { $ref: '#/nope' }] }, 'refers to #/nope,'],
  // Whatever else leads to the same place, and in which order.
  [{ allOf: [{ $ref: '#/$defs/a' }], anyOf: [{ $ref: '#/$defs/a' }], $defs: { a: { type: 'x' } } }, 'has type "x"'],
  [{ anyOf: [{ $ref: '#/$defs/a' }], allOf: [{ $ref: '#/$defs/a' }], $defs: { a: { type: 'x' } } }, 'has type "x"'],
  [{ $ref: 'http://[' }, 'is not a valid JSON Schema'],
])('%j has one', (schema, words) => {
  expect(slipIn(schema)?.startsWith(words)).toBe(true);
});

test.each([
  { $ref: '#' },
  { $defs: { 'a/b': { type: 'integer' }, ä: true }, anyOf: [{ $ref: '#/$defs/a~1b' }, { $ref: '#/$defs/%C3%A4' }] },
  { anyOf: [{ type: 'string' }], items: { $ref: '#/anyOf/0' } },
  { properties: { type: { const: { type: 'x' } }, $ref: { type: 'string' } } },
  // No value meets these.
  {
    type: 'object',
    example: { type: 'dog' },
    'x-ui': { type: 'textarea' },
    errorMessage: { type: 'an object, please' },
  },
  { metadata: { type: 'invoice', $ref: '#/components/x' } },
  { type: 'string', $defs: { f: { type: 'file', $ref: '#/nope' } } },
  // Another branch may stand in for this one.
  { anyOf: [{ type: 'string' }, { type: 'any' }] },
  // The validator writes such a field itself.
  { __absolute_ref__: 'x' },
  { __absolute_ref__: { toString: 1 } },
  // Places that the validator names otherwise than by a pointer.
  { $defs: { f: { $anchor: 'f', type: 'string' } }, $ref: '#f' },
  { $defs: { f: { $id: 'https://x.example/f', type: 'string' } }, $ref: 'https://x.example/f' },
])('%j has none', (schema) => {
  expect(slipIn(schema)).toBeUndefined();
});

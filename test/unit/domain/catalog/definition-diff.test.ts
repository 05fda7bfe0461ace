/** What changed in a definition is told field by field, and nothing of it is left out (H-7). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../../../contracts/schemas/tool.ts';
import { definitionDiff } from '../../../../domain/catalog/discovery.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { jsonObject } from '../../../support/builders/arbitraries.ts';

const pay: ToolDefinition = {
  name: 'pay',
  description: 'Pays.',
  inputSchema: { type: 'object', properties: { amount: { type: 'number' }, to: { type: 'string' } } },
};

test('a field that is new, gone, or another, by its path', () => {
  const { description: _, ...rest } = pay;
  const now: ToolDefinition = {
    ...rest,
    title: 'Pay',
    inputSchema: { type: 'object', properties: { amount: { type: 'integer' }, to: { type: 'string' } } },
  };
  expect(definitionDiff(pay, now)).toEqual([
    { path: 'description', before: 'Pays.' },
    { path: 'inputSchema.properties.amount.type', before: 'number', after: 'integer' },
    { path: 'title', after: 'Pay' },
  ]);
});

test('where nothing was acknowledged, all is new', () => {
  expect(definitionDiff(undefined, pay).map(({ path }) => path)).toEqual(['description', 'inputSchema', 'name']);
});

test('a path shows odd names as they are', () => {
  const odd = (value: number): ToolDefinition => {
    // Sound: it is JSON that is an object.
    const properties = JSON.parse(`{"a.b":${value},"constructor":${value},"__proto__":${value}}`) as JsonObject;
    return { ...pay, inputSchema: { properties } };
  };
  expect(definitionDiff(odd(1), odd(2)).map(({ path }) => path)).toEqual([
    'inputSchema.properties.__proto__',
    'inputSchema.properties."a.b"',
    'inputSchema.properties.constructor',
  ]);
});

test('there is no difference exactly where the definitions are the same', () => {
  fc.assert(
    fc.property(jsonObject, jsonObject, (one, other) => {
      const [before, after] = [one, other].map((inputSchema) => ({ name: 'pay', inputSchema }));
      if (before === undefined || after === undefined) throw new Error('two were made');
      expect(definitionDiff(before, after).length === 0).toBe(canonicalJson(one) === canonicalJson(other));
      expect(definitionDiff(before, before)).toEqual([]);
    }),
  );
});

/** Output schemas that yield warnings, and declarations of parameter headers. */
import { describe, expect, test } from '@jest/globals';
import { outputViolation } from '../../../../activities/mcp/classify-result.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { doublingSchema } from '../../../support/doubling-schema.ts';
import { paramHeaderFault } from '../../../../activities/mcp/listing.ts';

describe('an output schema', () => {
  const schema: JsonObject = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

  test('that is kept yields nothing', () => {
    expect(outputViolation(schema, { n: 1 })).toBeUndefined();
  });

  test('that is broken is named with the place', () => {
    expect(outputViolation(schema, { n: 'x' })).toContain('#/n');
  });

  test('that is promised and not met at all is named', () => {
    expect(outputViolation(schema, undefined)).toContain('gave none');
  });

  test.each([
    ['an invalid pattern', { properties: { n: { type: 'string', pattern: '(' } } }],
    ['a reference to nowhere', { $ref: '#/$defs/nothing' }],
    ['a pattern that takes for ever', { properties: { n: { type: 'string', pattern: '^(a|a)+$' } } }],
    ['references that double at each level', doublingSchema(40)],
  ])('with %s is given up', (_, hostile) => {
    expect(outputViolation({ type: 'object', ...hostile }, { n: `${'a'.repeat(60)}!` })).toContain(
      'could not be applied',
    );
  });

  test('is checked again after one was given up', () => {
    outputViolation({ ...doublingSchema(40) }, {});
    expect(outputViolation(schema, { n: 1 })).toBeUndefined();
  });

  test.each([
    ['http://json-schema.org/draft-04/schema#', { exclusiveMinimum: true, minimum: 1 }],
    ['http://json-schema.org/draft-07/schema#', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2019-09/schema', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2020-12/schema', { exclusiveMinimum: 1 }],
  ])('is read in the draft that it names (%s)', ($schema, rule) => {
    const dated = { $schema, type: 'object', properties: { n: { type: 'number', ...rule } } };
    expect(outputViolation(dated, { n: 2 })).toBeUndefined();
    expect(outputViolation(dated, { n: 1 })).toBeDefined();
  });
});

describe('parameter headers (SEP-2243)', () => {
  const withProperty = (property: JsonObject): JsonObject => ({ type: 'object', properties: { a: property } });

  test.each<[string, JsonObject]>([
    ['none', { type: 'object' }],
    ['on a string', withProperty({ type: 'string', 'x-mcp-header': 'Region' })],
    ['on an integer', withProperty({ type: 'integer', 'x-mcp-header': 'N' })],
    [
      'on a boolean below objects',
      withProperty({ type: 'object', properties: { b: { type: 'boolean', 'x-mcp-header': 'B' } } }),
    ],
    [
      'in data that is no schema',
      withProperty({ type: 'object', default: { 'x-mcp-header': 7 }, enum: [{ 'x-mcp-header': 7 }] }),
    ],
    ['as the name of a property', withProperty({ type: 'object', properties: { 'x-mcp-header': { type: 'array' } } })],
  ])('%s: legal', (_, inputSchema) => {
    expect(paramHeaderFault(inputSchema)).toBeUndefined();
  });

  test.each<[string, JsonObject]>([
    ['on a number', withProperty({ type: 'number', 'x-mcp-header': 'N' })],
    ['on an object', withProperty({ type: 'object', 'x-mcp-header': 'O' })],
    ['on a property of no type', withProperty({ 'x-mcp-header': 'O' })],
    ['on a property of two types', withProperty({ type: ['string', 'null'], 'x-mcp-header': 'O' })],
    ['on the root', { type: 'object', 'x-mcp-header': 'Root' }],
    ['with a space', withProperty({ type: 'string', 'x-mcp-header': 'a b' })],
    ['with a line break', withProperty({ type: 'string', 'x-mcp-header': 'a\r\nb' })],
    ['empty', withProperty({ type: 'string', 'x-mcp-header': '' })],
    ['no string', withProperty({ type: 'string', 'x-mcp-header': 7 })],
    ['below items', withProperty({ type: 'array', items: { type: 'string', 'x-mcp-header': 'I' } })],
    ['below anyOf', withProperty({ anyOf: [{ type: 'string', 'x-mcp-header': 'I' }] })],
    ['in $defs', { type: 'object', $defs: { d: { type: 'string', 'x-mcp-header': 'D' } } }],
    [
      'below properties in $defs',
      { type: 'object', $defs: { d: { properties: { e: { type: 'string', 'x-mcp-header': 'D' } } } } },
    ],
    [
      'twice',
      {
        type: 'object',
        properties: { a: { type: 'string', 'x-mcp-header': 'X' }, b: { type: 'string', 'x-mcp-header': 'x' } },
      },
    ],
  ])('%s: illegal', (_, inputSchema) => {
    expect(paramHeaderFault(inputSchema)).toContain('x-mcp-header');
  });
});

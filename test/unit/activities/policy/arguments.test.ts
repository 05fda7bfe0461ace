/** Arguments against input schemas, which are a server's text. */
import { describe, expect, test } from '@jest/globals';
import { ArgumentChecker } from '../../../../activities/policy/judge.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { doublingSchema } from '../../../support/doubling-schema.ts';

const SCHEMA: JsonObject = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

describe('arguments', () => {
  test('that fit have no problems; others are named with their place', () => {
    const checker = new ArgumentChecker();
    expect(checker.problems('a', SCHEMA, { n: 1 })).toEqual([]);
    expect(checker.problems('a', SCHEMA, { n: 'x' })).toContainEqual(expect.stringContaining('#/n'));
  });

  test.each<[string, JsonObject]>([
    ['with a pattern', { type: 'object', properties: { n: { type: 'string', pattern: '^(a+)+$' } } }],
    ['with references to nowhere', { type: 'object', $ref: '#/$defs/nothing' }],
    ['with references that double at each level', { type: 'object', ...doublingSchema(40) }],
  ])('a schema %s refuses nothing', (_, schema) => {
    expect(new ArgumentChecker().problems('a', schema, { n: `${'a'.repeat(60)}!` })).toEqual([]);
  });

  test('a schema that took too long is not tried again, and others are checked as before', () => {
    const checker = new ArgumentChecker();
    const slow: JsonObject = { type: 'object', ...doublingSchema(40) };
    checker.problems('slow', slow, {});
    // The hash stands for the schema: were it tried again, this would be found.
    expect(checker.problems('slow', SCHEMA, {})).toEqual([]);
    expect(checker.problems('other', SCHEMA, {})).not.toEqual([]);
  });
});

/** Final answers against the output schema of a run. */
import { describe, expect, test } from '@jest/globals';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { doublingSchema } from '../support/doubling-schema.ts';
import { checkOutput } from '../../activities/models/model-step.ts';

const SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: {
    verdict: { enum: ['good', 'bad'] },
    pair: { prefixItems: [{ type: 'string' }, { type: 'number' }], items: false },
  },
  required: ['verdict'],
  additionalProperties: false,
};

describe('a final answer with an output schema', () => {
  test.each([
    ['bare', ['{"verdict":"good"}']],
    ['with space around it', ['\n  {"verdict":"good"}  \n']],
    ['in several parts', ['{"verdict":', '"good"}']],
    ['fenced', ['Here it is:\n```json\n{"verdict":"good"}\n```\nAnything else?']],
    [
      'fenced without a language, after another block',
      ['```\n{"verdict":"bad"}\n```\nor rather\n```\n{"verdict":"good"}\n```'],
    ],
    ['after a part of comment', ['I looked at everything.', '{"verdict":"good"}']],
  ])('is read %s', (_, texts) => {
    expect(checkOutput(texts, SCHEMA)).toEqual({ kind: 'valid', value: { verdict: 'good' } });
  });

  test('may be any JSON value that the schema allows', () => {
    expect(checkOutput(['null'], { type: ['null', 'number'] })).toEqual({ kind: 'valid', value: null });
    expect(checkOutput(['7'], { type: 'number' })).toEqual({ kind: 'valid', value: 7 });
    expect(checkOutput(['[1]'], {})).toEqual({ kind: 'valid', value: [1] });
  });

  test('is validated as draft 2020-12', () => {
    expect(checkOutput(['{"verdict":"good","pair":["a",1]}'], SCHEMA).kind).toBe('valid');
    expect(checkOutput(['{"verdict":"good","pair":["a",1,2]}'], SCHEMA).kind).toBe('invalid');
  });

  test.each([[['Sure, it is good.']], [['']], [[]], [['{"verdict":"good"} {"verdict":"bad"}']]])(
    'that is no JSON is told so: %j',
    (texts) => {
      expect(checkOutput(texts, SCHEMA)).toEqual({ kind: 'invalid', errors: ['The answer is not one JSON value.'] });
    },
  );

  test('that does not fit is told where and why', () => {
    const check = checkOutput(['{"verdict":"maybe"}'], SCHEMA);
    expect(check).toMatchObject({
      kind: 'invalid',
      errors: expect.arrayContaining([expect.stringContaining('#/verdict')]),
    });
  });

  test('that is wrong in many places gives bounded errors', () => {
    const keys = Array.from({ length: 200 }, (_, index) => [`${'long'.repeat(200)}${index}`, 1]);
    const check = checkOutput([JSON.stringify(Object.fromEntries(keys))], SCHEMA);
    const errors = check.kind === 'invalid' ? check.errors : [];
    expect(errors).toHaveLength(10);
    for (const error of errors) expect(error.length).toBeLessThanOrEqual(300);
  });

  test('and a schema that is none: the run hears of it, nothing throws', () => {
    const check = checkOutput(['{}'], { $ref: '#/$defs/nowhere' });
    expect(check).toMatchObject({ kind: 'invalid', errors: [expect.stringContaining('cannot be applied')] });
  });

  test('that nests too deeply for a run to hash is refused', () => {
    const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    expect(checkOutput([nested(100)], {}).kind).toBe('valid');
    expect(checkOutput([nested(5_000)], {})).toEqual({
      kind: 'invalid',
      errors: ['The answer nests deeper than 100 levels.'],
    });
  });

  test.each<[string, JsonObject, string]>([
    ['a pattern that takes for ever', { type: 'string', pattern: '^(a+)+$' }, JSON.stringify(`${'a'.repeat(60)}!`)],
    ['references that double at each level', doublingSchema(40), '{}'],
    // Each opening fence is followed to the end of the text.
    ['an answer whose fences take for ever to pair', {}, 'a```\n'.repeat(200_000)],
  ])('and %s: the answer is refused in time', (_, schema, text) => {
    expect(checkOutput([text], schema)).toMatchObject({
      kind: 'invalid',
      errors: [expect.stringContaining('could not be checked in time')],
    });
    expect(checkOutput(['7'], { type: 'number' })).toEqual({ kind: 'valid', value: 7 });
  });
});

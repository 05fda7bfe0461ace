/** The edit form: which fields a schema gives, what they read, and that no schema can hide or change an argument. */
import { describe, expect, test } from '@jest/globals';
import type { JsonObject, JsonValue } from '../../../../contracts/schemas/json.ts';
import { editFields, filledWith, lengthsIn } from '../../../../gateway/page/edit/fields.ts';
import { readEdited } from '../../../../gateway/page/edit/read.ts';
import { editForm, type Field } from '../../../../gateway/page/edit/schema.ts';
import { markup } from '../../../../gateway/page/kit/markup.ts';

const NONE = () => undefined;

function objectOf(properties: JsonObject, required: readonly string[] = []): JsonObject {
  return { type: 'object', properties, required };
}

/** What a browser sends of a form that nobody has touched. */
function untouched(form: ReturnType<typeof editForm>, args: JsonObject): URLSearchParams {
  return new URLSearchParams(Object.entries(filledWith(() => form, args)));
}

function kinds(fields: readonly Field[]): Readonly<Record<string, string>> {
  return Object.fromEntries(fields.map(({ name, shape }) => [name, shape.kind]));
}

const SCHEMA = objectOf(
  {
    text: { type: 'string', minLength: 2 },
    number: { type: 'number', multipleOf: 0.01 },
    whole: { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 10 },
    yes: { type: 'boolean' },
    one: { enum: ['a', 1, null] },
    titled: { oneOf: [{ const: 'x', title: 'The x' }, { const: 'y' }] },
    nullable: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    also: { type: ['integer', 'null'] },
    object: { type: 'object', properties: { inner: { type: 'string' } }, required: ['inner'] },
    list: { type: 'array', items: { type: 'string' }, maxItems: 2 },
    ref: { $ref: '#/$defs/Point' },
    any: {},
  },
  ['text'],
);
const WHOLE = { ...SCHEMA, $defs: { Point: objectOf({ x: { type: 'number' } }) } };

test('each kind of a schema has its field', () => {
  expect(kinds(editForm(WHOLE, {}, NONE).fields)).toEqual({
    text: 'text',
    number: 'number',
    whole: 'number',
    yes: 'boolean',
    one: 'choice',
    titled: 'choice',
    nullable: 'text',
    also: 'number',
    object: 'object',
    list: 'list',
    ref: 'object',
    any: 'json',
  });
});

describe('an untouched form gives the arguments as they were proposed', () => {
  const VALUES: readonly JsonObject[] = [
    { text: 'a\nb', number: 1250.5, whole: 3, yes: false, one: null, titled: 'y', nullable: null, also: null },
    { text: '', object: { inner: '', more: [1, { deep: null }] }, list: ['', 'b'], ref: { x: 1e21 } },
    // Of other kinds than the schema says.
    { text: 5, number: 'five', yes: 'no', one: 'z', object: [1], list: { a: 1 }, ref: 'point', nullable: false },
    { text: 'pay \u202e001', one: 'pay \u202e', list: ['\u200b'], [' odd\u202e name']: '\u0000', '': 1 },
    { text: 'ab', constructor: 'a', toString: { __proto__x: 1 }, length: 2, 'argument.0': 'a' },
    { text: ' spaced ', list: Array.from({ length: 80 }, (_, index) => String(index)) },
  ];
  const SCHEMAS: readonly (readonly [string, JsonObject | undefined])[] = [
    ['its schema', WHOLE],
    ['no schema', undefined],
    ['a schema of nothing', {}],
    ['another schema', objectOf({ text: { type: 'object' }, list: { enum: ['a'] } })],
  ];
  test.each(SCHEMAS)('with %s', (_, schema) => {
    for (const args of VALUES) {
      const form = editForm(schema, args, NONE);
      const { arguments: read, problems } = readEdited(form, untouched(form, args));
      expect([...problems.values()]).toEqual([]);
      expect(read).toEqual(args);
    }
  });
});

describe('a hostile schema', () => {
  const RECURSIVE = {
    type: 'object',
    properties: { a: { $ref: '#' }, b: { $ref: '#/$defs/b' }, c: { $ref: '#/properties/c' } },
    $defs: { b: objectOf({ b: { $ref: '#/$defs/b' }, again: { $ref: '#/$defs/b' } }) },
  };
  const CASES: readonly (readonly [string, JsonObject])[] = [
    ['that refers to itself', RECURSIVE],
    ['that refers elsewhere', objectOf({ amount: { $ref: 'https://evil.example/schema' } })],
    [
      'with very many fields',
      objectOf(Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, { type: 'string' }]))),
    ],
    ['with very many options', objectOf({ amount: { enum: Array.from({ length: 5_000 }, (_, at) => at) } })],
    ['that is very large', objectOf({ amount: { description: 'x'.repeat(1_000_000) } })],
    ['that is very deep', deep(2_000)],
    ['of wrong types', { properties: [1], required: 'amount', type: 7, anyOf: 'x', enum: {} }],
    [
      'with a bound that nothing meets',
      objectOf({ amount: { type: 'number', minimum: 9, maximum: 1, multipleOf: 0 } }),
    ],
    ['with a pattern that never ends', objectOf({ note: { type: 'string', pattern: '^(a+)+$' } })],
  ];
  test.each(CASES)('%s gives a bounded form with all arguments', (_, schema) => {
    const args = { amount: 5, note: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', b: { b: { b: 1 } } };
    const form = editForm(schema, args, NONE);
    const html = markup`${editFields(form, {})}`.text;
    expect(html.length).toBeLessThan(1_000_000);
    expect(html).not.toContain(' pattern=');
    expect(readEdited(form, untouched(form, args))).toEqual({ arguments: args, problems: new Map() });
  });

  test('that refers to itself takes no kind from the fields beside it', () => {
    const self = { $ref: '#/$defs/self' };
    const schema = { ...objectOf({ a: self, amount: { type: 'number' } }), $defs: { self: objectOf({ a: self }) } };
    expect(kinds(editForm(schema, {}, NONE).fields)).toEqual({ a: 'object', amount: 'number' });
  });

  test('has words that are shown and do nothing', () => {
    const bad = '"><script>alert(1)</script>\u202e';
    const schema = objectOf({
      [bad]: { type: 'string', title: bad, description: bad, default: bad, format: bad, pattern: bad },
      pick: { oneOf: [{ const: bad, title: bad }] },
    });
    const html = markup`${editFields(editForm(schema, { [bad]: bad }, NONE), {})}`.text;
    expect(html).not.toContain('<script>');
    expect(html).not.toContain('\u202e');
  });
});

function deep(levels: number): JsonObject {
  let schema: JsonObject = { type: 'string' };
  for (let level = 0; level < levels; level += 1) schema = objectOf({ a: schema });
  return schema;
}

describe('what is typed', () => {
  const read = (schema: JsonObject, args: JsonObject, over: Readonly<Record<string, string>>) => {
    const form = editForm(schema, args, lengthsIn(over));
    const sent = untouched(form, args);
    for (const [name, value] of Object.entries(over)) sent.set(name, value);
    return readEdited(form, sent);
  };

  test.each<readonly [string, JsonObject, JsonValue, string, string]>([
    ['a short text', { type: 'string', minLength: 3 }, 'abc', 'ab', 'must have at least 3 characters'],
    ['a long text', { type: 'string', maxLength: 2 }, 'a', '😀😀😀', 'must have at most 2 characters'],
    ['a word for a number', { type: 'number' }, 1, 'one', 'must be a number'],
    ['an infinite number', { type: 'number' }, 1, '1e999', 'must be a number'],
    ['half of a whole', { type: 'integer' }, 1, '1.5', 'must be a whole number'],
    ['too little', { type: 'number', minimum: 1 }, 2, '0', 'must be at least 1'],
    ['too much', { type: 'number', maximum: 1 }, 1, '2', 'must be at most 1'],
    ['the bound itself', { type: 'number', exclusiveMinimum: 1 }, 2, '1', 'must be more than 1'],
    ['the upper bound', { type: 'number', exclusiveMaximum: 1 }, 0, '1', 'must be less than 1'],
    ['no multiple', { type: 'number', multipleOf: 0.1 }, 0.3, '0.35', 'must be a multiple of 0.1'],
    ['more digits than a number has', { type: 'integer' }, 1, '12345678901234567890', 'has more digits'],
    ['no option', { enum: ['a'] }, 'a', '7', 'must be one of the options'],
    ['nothing, for a number', { type: 'number' }, 1, '', 'has no value'],
    ['no JSON', {}, [1], '[', 'must be JSON'],
  ])('%s is told at its field', (_, schema, before, typed, reason) => {
    const { problems } = read(objectOf({ it: schema }), { it: before }, { 'argument.0': typed });
    expect([...problems]).toEqual([['argument.0', { path: 'arguments.it', reason: expect.stringContaining(reason) }]]);
  });

  test('is required where the schema says so, also in an object that begins', () => {
    const schema = objectOf(
      { now: { type: 'number' }, later: objectOf({ a: { type: 'string' }, b: { type: 'number' } }, ['a']) },
      ['now'],
    );
    const wanting = read(schema, {}, { 'argument.0': '', 'argument.1.0': '', 'argument.1.1': '' });
    expect([...wanting.problems.keys()]).toEqual(['argument.0']);
    expect(wanting.arguments).toEqual({});
    const begun = read(schema, {}, { 'argument.0': '1', 'argument.1.0': '', 'argument.1.1': '2' });
    expect([...begun.problems.keys()]).toEqual(['argument.1.0']);
    const whole = read(schema, {}, { 'argument.0': '1', 'argument.1.0': 'x', 'argument.1.1': '' });
    expect(whole).toEqual({ arguments: { now: 1, later: { a: 'x' } }, problems: new Map() });
  });

  test('leaves out what may be left out, and nothing else', () => {
    const schema = objectOf({ must: { type: 'string' }, may: { type: 'string' } }, ['must']);
    const omitted = { 'argument.0.omit': 'on', 'argument.1.omit': 'on' };
    expect(read(schema, { must: 'a', may: 'b' }, omitted).arguments).toEqual({ must: 'a' });
  });

  test('adds and removes items of a list within its bounds', () => {
    const schema = objectOf({ list: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 2 } });
    const three = { 'argument.0.length': '3', 'argument.0.0': 'a', 'argument.0.1': 'b', 'argument.0.2': 'c' };
    expect(read(schema, { list: ['a'] }, three).problems.get('argument.0')?.reason).toBe('must have at most 2 items');
    const two = { ...three, 'argument.0.0.omit': 'on' };
    expect(read(schema, { list: ['a'] }, two).arguments).toEqual({ list: ['b', 'c'] });
    expect(read(schema, { list: ['a'] }, { 'argument.0.0.omit': 'on' }).problems.get('argument.0')?.reason).toBe(
      'must have at least 1 items',
    );
  });

  test('cannot ask for endless fields', () => {
    const schema = objectOf({ list: { type: 'array', items: { type: 'string' } } });
    const form = editForm(schema, { list: [] }, lengthsIn({ 'argument.0.length': '999' }));
    expect(form.fields[0]?.inner).toHaveLength(50);
  });
});

/** The edit form: which fields a schema gives, what they read, and that no schema can hide or change an argument. */
import { describe, expect, test } from '@jest/globals';
import type { JsonObject, JsonValue } from '../../../../contracts/schemas/json.ts';
import { editFields, filledWith, lengthsIn } from '../../../../gateway/page/edit/fields.ts';
import { readEdited } from '../../../../gateway/page/edit/read.ts';
import { editForm, type Field } from '../../../../gateway/page/edit/schema.ts';
import { markup } from '../../../../gateway/page/kit/markup.ts';
import { EDIT_SCHEMA, EDIT_SCHEMAS, EDIT_VALUES, objectSchema } from '../../../support/edit-forms.ts';

const NONE = () => undefined;

/** What a browser sends of a form that nobody has touched. */
function untouched(form: ReturnType<typeof editForm>, args: JsonObject): URLSearchParams {
  return new URLSearchParams(Object.entries(filledWith(() => form, args)));
}

function kinds(fields: readonly Field[]): Readonly<Record<string, string>> {
  return Object.fromEntries(fields.map(({ name, shape }) => [name, shape.kind]));
}

test('each kind of a schema has its field', () => {
  expect(kinds(editForm(EDIT_SCHEMA, {}, NONE).fields)).toEqual({
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
    noList: 'list',
    noObject: 'object',
  });
});

describe('an untouched form gives the arguments as they were proposed', () => {
  test.each(EDIT_SCHEMAS)('with %s', (_, schema) => {
    for (const args of EDIT_VALUES) {
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
    $defs: { b: objectSchema({ b: { $ref: '#/$defs/b' }, again: { $ref: '#/$defs/b' } }) },
  };
  const CASES: readonly (readonly [string, JsonObject])[] = [
    ['that refers to itself', RECURSIVE],
    ['that refers elsewhere', objectSchema({ amount: { $ref: 'https://evil.example/schema' } })],
    [
      'with very many fields',
      objectSchema(Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, { type: 'string' }]))),
    ],
    ['with very many options', objectSchema({ amount: { enum: Array.from({ length: 5_000 }, (_, at) => at) } })],
    ['that is very large', objectSchema({ amount: { description: 'x'.repeat(1_000_000) } })],
    ['that is very deep', deep(2_000)],
    ['of wrong types', { properties: [1], required: 'amount', type: 7, anyOf: 'x', enum: {} }],
    [
      'with a bound that nothing meets',
      objectSchema({ amount: { type: 'number', minimum: 9, maximum: 1, multipleOf: 0 } }),
    ],
    [
      'that refers often to one long text',
      {
        ...objectSchema(
          Object.fromEntries(Array.from({ length: 249 }, (_, at) => [`p${at}`, { $ref: '#/$defs/long' }])),
        ),
        $defs: { long: { type: 'string', title: '\u200b'.repeat(20_000), description: '\u200b'.repeat(38_000) } },
      },
    ],
    [
      'that refers often to one very large object',
      {
        ...objectSchema(
          Object.fromEntries(Array.from({ length: 249 }, (_, at) => [`p${at}`, { $ref: '#/$defs/large' }])),
        ),
        $defs: {
          large: objectSchema(
            Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`${'q'.repeat(9)}${at}`, {}])),
          ),
        },
      },
    ],
    [
      'that refers often to one long name, and to long options',
      {
        ...objectSchema(
          Object.fromEntries(Array.from({ length: 124 }, (_, at) => [`p${at}`, { $ref: '#/$defs/named' }])),
        ),
        $defs: {
          named: objectSchema({ ['\u200b'.repeat(30_000)]: { $ref: '#/$defs/one' } }),
          one: { enum: Array.from({ length: 90 }, (_, at) => `${'\u200b'.repeat(200)}${at}`) },
        },
      },
    ],
    ['with a pattern that never ends', objectSchema({ note: { type: 'string', pattern: '^(a+)+$' } })],
  ];
  test.each(CASES)('%s gives a bounded form with all arguments', (_, schema) => {
    const args = { amount: 5, note: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', b: { b: { b: 1 } } };
    const form = editForm(schema, args, NONE);
    const html = markup`${editFields(form, {})}`.text;
    expect(html.length).toBeLessThan(1_000_000);
    expect(html).not.toContain(' pattern=');
    expect(readEdited(form, untouched(form, args))).toEqual({ arguments: args, problems: new Map() });
  });

  test('has help as far as there is room for it, and says where the rest stands', () => {
    const text = { type: 'string', description: 'a'.repeat(3_000) };
    const properties = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`p${at}`, text]));
    const { fields } = editForm(objectSchema(properties), {}, NONE);
    expect(fields[0]?.shape.description).toMatch(/^a{2000}… \(see the definition\)$/);
    expect(fields.at(-1)?.shape).toMatchObject({ kind: 'text', notes: ['see the definition'] });
    expect(fields.at(-1)?.shape).not.toHaveProperty('description');
  });

  test('with more properties than fields takes the others as JSON, also if it allows no others', () => {
    const properties = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`p${at}`, { type: 'string' }]));
    const form = editForm({ ...objectSchema(properties), additionalProperties: false }, {}, NONE);
    expect(form.fields.length).toBeLessThanOrEqual(250);
    expect(form.isOpen).toBe(true);
  });

  test('that refers to itself takes no kind from the fields beside it', () => {
    const self = { $ref: '#/$defs/self' };
    const schema = {
      ...objectSchema({ a: self, amount: { type: 'number' } }),
      $defs: { self: objectSchema({ a: self }) },
    };
    expect(kinds(editForm(schema, {}, NONE).fields)).toEqual({ a: 'object', amount: 'number' });
  });

  test('has words that are shown and do nothing', () => {
    const bad = '"><script>alert(1)</script>\u202e';
    const schema = objectSchema({
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
  for (let level = 0; level < levels; level += 1) schema = objectSchema({ a: schema });
  return schema;
}

test('a field refuses nothing that the schema allows', () => {
  const schema = objectSchema(
    { odd: { type: 'number', minimum: 0.3, multipleOf: 0.2 }, text: { type: 'string', minLength: 1, maxLength: 2 } },
    ['odd', 'text'],
  );
  const html = markup`${editFields(editForm(schema, { odd: 0.4, text: '' }, NONE), {})}`.text;
  expect(html).toContain('step="any"');
  expect(html).not.toMatch(/minlength|maxlength/);
  // It was proposed empty, and may stay so.
  expect(html).toMatch(/<textarea[^>]*id="argument\.1"/);
  expect(html).not.toMatch(/<textarea[^>]*required/);
});

test('what is wrong with a list stands at the list, and names begin with what is seen', () => {
  const schema = objectSchema({ list: { type: 'array', description: 'Some.', items: { type: 'string' } } });
  const problems = new Map([['argument.0', { path: 'arguments.list', reason: 'must have at most 2 items' }]]);
  const html = markup`${editFields(editForm(schema, { list: ['a'] }, NONE), { typed: {}, problems })}`.text;
  expect(html).toMatch(/<fieldset[^>]* aria-describedby="argument\.0\.help argument\.0\.problem" aria-invalid="true"/);
  expect(html).toContain('aria-label="leave out list"');
});

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
    ['a number of JSON that would be another', {}, [1], '[9007199254740993]', 'holds 9007199254740993, which cannot'],
    ['more decimals than are kept', { type: 'number' }, 1, '0.30000000000000000001', 'has more digits'],
    ['an endless number of JSON', {}, [1], '{"a":[-1e400]}', 'holds -1e400'],
    ['a number of JSON that would be nothing', {}, [1], '[1e-400]', 'holds 1e-400'],
    ['a name twice', {}, [1], String.raw`{"a":{"b":1},"c":{"b":"a"},"\u0061":2}`, 'has two fields called'],
    ['a prototype', {}, [1], '[{"__proto__":1}]', 'no field called __proto__'],
    ['JSON without a bottom', {}, [1], '['.repeat(101) + ']'.repeat(101), 'at most 100 levels'],
  ])('%s is told at its field', (_, schema, before, typed, reason) => {
    const { problems } = read(objectSchema({ it: schema }), { it: before }, { 'argument.0': typed });
    expect([...problems]).toEqual([['argument.0', { path: 'arguments.it', reason: expect.stringContaining(reason) }]]);
  });

  test('is required where the schema says so, also in an object that begins', () => {
    const schema = objectSchema(
      { now: { type: 'number' }, later: objectSchema({ a: { type: 'string' }, b: { type: 'number' } }, ['a']) },
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
    const schema = objectSchema({ must: { type: 'string' }, may: { type: 'string' } }, ['must']);
    const omitted = { 'argument.0.omit': 'on', 'argument.1.omit': 'on' };
    expect(read(schema, { must: 'a', may: 'b' }, omitted).arguments).toEqual({ must: 'a' });
  });

  test('adds and removes items of a list within its bounds', () => {
    const schema = objectSchema({ list: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 2 } });
    const three = { 'argument.0.length': '3', 'argument.0.0': 'a', 'argument.0.1': 'b', 'argument.0.2': 'c' };
    expect(read(schema, { list: ['a'] }, three).problems.get('argument.0')?.reason).toBe('must have at most 2 items');
    const two = { ...three, 'argument.0.0.omit': 'on' };
    expect(read(schema, { list: ['a'] }, two).arguments).toEqual({ list: ['b', 'c'] });
    expect(read(schema, { list: ['a'] }, { 'argument.0.0.omit': 'on' }).problems.get('argument.0')?.reason).toBe(
      'must have at least 1 items',
    );
  });

  test('cannot ask for endless fields', () => {
    const schema = objectSchema({ list: { type: 'array', items: { type: 'string' } } });
    const form = editForm(schema, { list: [] }, lengthsIn({ 'argument.0.length': '999' }));
    expect(form.fields[0]?.inner).toHaveLength(50);
  });
});

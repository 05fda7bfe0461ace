/** Schemas and arguments whose edit forms must give back what was proposed, read here and by a browser. */
import type { JsonObject } from '../../contracts/schemas/json.ts';

export function objectSchema(properties: JsonObject, required: readonly string[] = []): JsonObject {
  return { type: 'object', properties, required };
}

const SCHEMA = objectSchema(
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
    noList: { anyOf: [{ type: 'array', items: { type: 'string' }, minItems: 1 }, { type: 'null' }] },
    noObject: { anyOf: [objectSchema({ x: { type: 'number' } }, ['x']), { type: 'null' }] },
  },
  ['text'],
);
export const EDIT_SCHEMA = { ...SCHEMA, $defs: { Point: objectSchema({ x: { type: 'number' } }) } };

export const EDIT_VALUES: readonly JsonObject[] = [
  { noList: null, noObject: null, text: 'a\nb' },
  { noList: ['a'], noObject: { x: 1 }, text: 'ab', any: [9007199254740992, 1e21, -0.5, 5e-324] },
  { text: 'a\nb', number: 1250.5, whole: 3, yes: false, one: null, titled: 'y', nullable: null, also: null },
  { text: '', object: { inner: '', more: [1, { deep: null }] }, list: ['', 'b'], ref: { x: 1e21 } },
  // Of other kinds than the schema says.
  { text: 5, number: 'five', yes: 'no', one: 'z', object: [1], list: { a: 1 }, ref: 'point', nullable: false },
  { text: 'pay \u202e001', one: 'pay \u202e', list: ['\u200b'], [' odd\u202e name']: '\u0000', '': 1 },
  { text: 'ab', constructor: 'a', toString: { __proto__x: 1 }, length: 2, 'argument.0': 'a' },
  { text: ' spaced ', list: Array.from({ length: 80 }, (_, index) => String(index)) },
];
export const EDIT_SCHEMAS: readonly (readonly [string, JsonObject | undefined])[] = [
  ['its schema', EDIT_SCHEMA],
  ['no schema', undefined],
  ['a schema of nothing', {}],
  ['another schema', objectSchema({ text: { type: 'object' }, list: { enum: ['a'] } })],
];

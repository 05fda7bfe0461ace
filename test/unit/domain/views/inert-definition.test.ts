/** No model reads what a person could not see in the definition of a tool; what says which arguments are valid stays. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JsonValue } from '../../../../contracts/schemas/json.ts';
import { inertSchema, inertText } from '../../../../domain/views/inert-definition.ts';

const HIDDEN = 'Pays.\u202e evil\u200b';

test('hidden characters of words become visible, and lines stay lines', () => {
  expect(inertText('one\r\ntwo\tthree')).toBe('one\ntwo\tthree');
  expect(inertText(HIDDEN)).not.toMatch(/[\u202e\u200b]/);
});

test('descriptions and titles are words at any depth; names and values are not', () => {
  const schema: JsonValue = {
    description: HIDDEN,
    properties: { [HIDDEN]: { title: HIDDEN, enum: [HIDDEN], default: { description: HIDDEN } }, title: { const: 1 } },
    anyOf: [{ description: HIDDEN }, { const: { title: HIDDEN } }, true, null],
  };
  const shown = inertText(HIDDEN);
  expect(inertSchema(schema)).toEqual({
    description: shown,
    properties: { [HIDDEN]: { title: shown, enum: [HIDDEN], default: { description: HIDDEN } }, title: { const: 1 } },
    anyOf: [{ description: shown }, { const: { title: HIDDEN } }, true, null],
  });
});

test('what is plain stays as it is', () => {
  const plain = fc
    .jsonValue()
    .filter((value) => !/[^\x20-\x7e]/.test(JSON.stringify(value)) && !JSON.stringify(value).includes('\\\\'));
  // Sound: it is JSON.
  fc.assert(fc.property(plain, (value) => expect(inertSchema(value as JsonValue)).toEqual(value)));
});

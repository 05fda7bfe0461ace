/** Answers to forms, field by field (MCP 2026-07-28, client/elicitation). */
import { describe, expect, test } from '@jest/globals';
import type { FormField } from '../../../../contracts/schemas/input.ts';
import { LONGEST_TEXT, problemInForm } from '../../../../domain/request/input.ts';

function problem(field: FormField, value: unknown, required: string[] = []): string | undefined {
  const form = { kind: 'form' as const, message: 'x', fields: { it: field }, required, hash: 'a'.repeat(64) };
  const found = problemInForm(form, value === undefined ? {} : { it: value });
  if (found !== undefined) expect(found.path).toBe('it');
  return found?.reason;
}

const OPTIONS = [{ value: 'a' }, { value: 'b', title: 'B' }];

describe('a form', () => {
  test('what is no object, and a field that it does not have, are refused by name', () => {
    const form = { kind: 'form' as const, message: 'x', fields: {}, required: [], hash: 'a'.repeat(64) };
    expect(problemInForm(form, 'x')).toEqual({ path: '', reason: 'must be an object with the fields of the form' });
    expect(problemInForm(form, { other: 1 })).toEqual({ path: 'other', reason: 'is no field of the form' });
    expect(problemInForm(form, { constructor: 1 })).toMatchObject({ path: 'constructor' });
    expect(problemInForm(form, {})).toBeUndefined();
  });

  test('only what is required must be there', () => {
    expect(problem({ type: 'boolean' }, undefined)).toBeUndefined();
    expect(problem({ type: 'boolean' }, undefined, ['it'])).toBe('is required');
    expect(problem({ type: 'boolean' }, false, ['it'])).toBeUndefined();
  });
});

describe('its fields', () => {
  test.each<[FormField, unknown, string | undefined]>([
    [{ type: 'text' }, 'x', undefined],
    [{ type: 'text' }, 7, 'must be text'],
    [{ type: 'text', minLength: 2 }, 'x', 'must have at least 2 characters'],
    [{ type: 'text', maxLength: 1 }, 'xy', 'must have at most 1 characters'],
    // One character, two UTF-16 units.
    [{ type: 'text', maxLength: 1 }, '😀', undefined],
    [{ type: 'text', maxLength: 99_999 }, 'x'.repeat(LONGEST_TEXT + 1), `must have at most ${LONGEST_TEXT} characters`],
    [{ type: 'text', format: 'email' }, 'ann@example.com', undefined],
    [{ type: 'text', format: 'email' }, 'ann', 'must be an e-mail address'],
    [{ type: 'text', format: 'uri' }, 'https://example.com/x', undefined],
    [{ type: 'text', format: 'uri' }, 'example.com', 'must be a URI with its scheme'],
    [{ type: 'text', format: 'date' }, '2026-02-28', undefined],
    [{ type: 'text', format: 'date' }, '2026-02-30', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date' }, '2026-13-01', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date' }, 'soon', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date-time' }, '2026-01-31T09:00:00+01:00', undefined],
    [{ type: 'text', format: 'date-time' }, '2026-01-31T25:00:00Z', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'text', format: 'date-time' }, '2026-02-30T09:00:00Z', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'text', format: 'date-time' }, '2026-01-31', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'number' }, 1.5, undefined],
    [{ type: 'number' }, '1', 'must be a number'],
    [{ type: 'number' }, Number.POSITIVE_INFINITY, 'must be a number'],
    [{ type: 'integer' }, 1.5, 'must be a whole number'],
    [{ type: 'integer', minimum: 2 }, 1, 'must be at least 2'],
    [{ type: 'number', maximum: 2 }, 3, 'must be at most 2'],
    [{ type: 'number', minimum: 2, maximum: 2 }, 2, undefined],
    [{ type: 'boolean' }, 'true', 'must be true or false'],
    [{ type: 'choice', options: OPTIONS }, 'b', undefined],
    [{ type: 'choice', options: OPTIONS }, 'B', 'must be one of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['b', 'a'], undefined],
    [{ type: 'choices', options: OPTIONS }, 'a', 'must be a list of some of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['c'], 'must be a list of some of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['a', 'a'], 'must name each option once'],
    [{ type: 'choices', options: OPTIONS, minItems: 1 }, [], 'must name at least 1 options'],
    [{ type: 'choices', options: OPTIONS, maxItems: 1 }, ['a', 'b'], 'must name at most 1 options'],
  ])('%j and %j: %s', (field, value, reason) => {
    expect(problem(field, value)).toBe(reason);
  });
});

test('a problem never quotes what was answered', () => {
  expect(problem({ type: 'integer', minimum: 1 }, 'secret-7')).not.toContain('secret-7');
  expect(problem({ type: 'choice', options: OPTIONS }, 'secret-7')).not.toContain('secret-7');
});

/**
 * Whether an answer fits the form that it answers (MCP 2026-07-28, client/elicitation "Requested Schema").
 *
 * Pure. The sandbox holds no schema validator, and none is needed: a form is flat, and its kinds of fields are few.
 * 1. A problem names its field, never its value: values may be personal data.
 * 2. Every check costs time linear in the value.
 */
import type { FormField, FormRequest } from '../contracts/schemas/input.ts';
import { isFields } from './field-checks.ts';

export interface Problem {
  readonly path: string;
  readonly reason: string;
}

/** UTF-16 units. A form is no place for documents. */
export const LONGEST_TEXT = 10_000;

export function problemInForm({ fields, required }: FormRequest, content: unknown): Problem | undefined {
  if (!isFields(content)) return { path: '', reason: 'must be an object with the fields of the form' };
  for (const name of Object.keys(content)) {
    if (!Object.hasOwn(fields, name)) return { path: name, reason: 'is no field of the form' };
  }
  for (const [name, field] of Object.entries(fields)) {
    const value = content[name];
    if (value === undefined) {
      if (required.includes(name)) return { path: name, reason: 'is required' };
      continue;
    }
    const reason = whyNot(field, value);
    if (reason !== undefined) return { path: name, reason };
  }
  return undefined;
}

function whyNot(field: FormField, value: unknown): string | undefined {
  switch (field.type) {
    case 'text':
      return typeof value === 'string' ? whyNotText(field, value) : 'must be text';
    case 'number':
    case 'integer':
      return whyNotNumber(field, value);
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false';
    case 'choice':
      return isOption(field, value) ? undefined : `must be one of ${field.options.length} options`;
    case 'choices':
      return whyNotChoices(field, value);
  }
}

type Of<T extends FormField['type']> = Extract<FormField, { type: T }>;

function whyNotText(
  { minLength = 0, maxLength = LONGEST_TEXT, format }: Of<'text'>,
  value: string,
): string | undefined {
  if (value.length > LONGEST_TEXT) return `must have at most ${LONGEST_TEXT} characters`;
  // JSON Schema counts characters, not UTF-16 units (2020-12, validation §6.3).
  const length = [...value].length;
  if (length < minLength) return `must have at least ${minLength} characters`;
  if (length > maxLength) return `must have at most ${maxLength} characters`;
  return format === undefined || FORMATS[format].test(value) ? undefined : `must be ${FORMATS[format].says}`;
}

const FORMATS = {
  email: { says: 'an e-mail address', test: (text: string) => /^[^\s@]+@[^\s@]+$/.test(text) },
  uri: { says: 'a URI with its scheme', test: (text: string) => /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+$/.test(text) },
  date: { says: 'a date like 2026-01-31', test: isDate },
  'date-time': {
    says: 'a time like 2026-01-31T09:00:00Z',
    test: (text: string) =>
      /^[0-9-]{10}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$/.test(text) &&
      isDate(text.slice(0, 10)) &&
      !Number.isNaN(Date.parse(text)),
  },
} as const;

function isDate(text: string): boolean {
  const ms = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  // 30 February is read as 2 March.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

function whyNotNumber({ type, minimum, maximum }: Of<'number' | 'integer'>, value: unknown): string | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value)) return 'must be a number';
  if (type === 'integer' && !Number.isInteger(value)) return 'must be a whole number';
  if (minimum !== undefined && value < minimum) return `must be at least ${minimum}`;
  if (maximum !== undefined && value > maximum) return `must be at most ${maximum}`;
  return undefined;
}

function whyNotChoices(field: Of<'choices'>, value: unknown): string | undefined {
  const { minItems = 0, maxItems = field.options.length, options } = field;
  if (!Array.isArray(value) || !value.every((item) => isOption(field, item)))
    return `must be a list of some of ${options.length} options`;
  if (new Set(value).size !== value.length) return 'must name each option once';
  if (value.length < minItems) return `must name at least ${minItems} options`;
  if (value.length > maxItems) return `must name at most ${maxItems} options`;
  return undefined;
}

function isOption({ options }: Of<'choice' | 'choices'>, value: unknown): boolean {
  return options.some((option) => option.value === value);
}

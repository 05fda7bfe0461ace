/**
 * Reads the edit form into arguments. What does not fit is told by field, all of it at once.
 *
 * 1. A field that was not touched gives its value as it was proposed.
 * 2. The run judges the arguments as a whole against the schema; here only what a person can mend in a field is
 *    checked.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import type { EditForm, Field } from './schema.ts';
import type { Kind } from './shapes.ts';
import { isObject } from '../kit/faithful.ts';
import { writtenJson, writtenNumber } from '../kit/json.ts';

export interface Edited {
  readonly arguments: JsonObject;
  /** Reasons by the names of fields in the form; empty if all fit. */
  readonly problems: ReadonlyMap<string, Problem>;
}

export interface Problem {
  /** `arguments.payee.iban`. */
  readonly path: string;
  readonly reason: string;
}

/** What a field gives. `missing`: nothing was given, and something must be. */
type Given =
  | { readonly kind: 'value'; readonly value: JsonValue }
  | { readonly kind: 'out' }
  | { readonly kind: 'missing' }
  | { readonly kind: 'wrong' };

const OUT: Given = { kind: 'out' };
const MISSING: Given = { kind: 'missing' };
const WRONG: Given = { kind: 'wrong' };

export function readEdited({ fields, isOpen }: EditForm, form: URLSearchParams): Edited {
  const reader = new Reader(form);
  const args = reader.object(fields);
  const more = isOpen ? reader.more(new Set(fields.map(({ name }) => name))) : {};
  return { arguments: { ...args, ...more }, problems: reader.problems };
}

export function readWhole(text: string): Edited {
  const reader = new Reader(new URLSearchParams({ whole: text }));
  const value = reader.jsonObject('whole', 'arguments');
  return { arguments: value ?? {}, problems: reader.problems };
}

class Reader {
  readonly #form: URLSearchParams;
  readonly problems = new Map<string, Problem>();

  constructor(form: URLSearchParams) {
    this.#form = form;
  }

  #text(id: string): string | undefined {
    // The last of them: a checkbox that is checked stands behind what counts if it is not.
    return this.#form.getAll(id).at(-1)?.replaceAll('\r\n', '\n');
  }

  #wrong({ id, path }: Pick<Field, 'id' | 'path'>, reason: string): Given {
    this.problems.set(id, { path: `arguments.${path}`, reason });
    return WRONG;
  }

  object(fields: readonly Field[]): JsonObject {
    return Object.fromEntries(
      fields.flatMap((field) => {
        const given = this.#given(field);
        if (given.kind === 'missing') this.#wrong(field, 'is required');
        return given.kind === 'value' ? [[field.name, given.value] as const] : [];
      }),
    );
  }

  more(taken: ReadonlySet<string>): JsonObject {
    const text = this.#text('more') ?? '';
    const value = text.trim() === '' ? {} : (this.jsonObject('more', 'more') ?? {});
    const double = Object.keys(value).find((name) => taken.has(name));
    if (double !== undefined)
      this.problems.set('more', { path: 'more', reason: `names ${JSON.stringify(double)}, which has a field above` });
    return value;
  }

  jsonObject(id: string, path: string): JsonObject | undefined {
    const value = writtenJson(this.#text(id) ?? '');
    if ('value' in value && isObject(value.value)) return value.value;
    this.problems.set(id, { path, reason: 'value' in value ? 'must be a JSON object' : value.reason });
    return undefined;
  }

  /** One function, because it is one table of kinds. */
  #given(field: Field): Given {
    const { id, shape, before } = field;
    if (field.isOmissible && this.#text(`${id}.omit`) === 'on') return OUT;
    if (shape.kind === 'object') return this.#objectGiven(field);
    if (shape.kind === 'list') return this.#listGiven(field, shape);
    const text = this.#text(id);
    if (text === undefined) return this.#wrong(field, 'is missing; load the page again');
    if (text === '' && before !== '') return this.#nothing(field);
    switch (shape.kind) {
      case 'text':
        return this.#checked(field, text, lengthProblem(shape, text));
      case 'number':
        return this.#number(field, shape, text);
      case 'boolean':
        return { kind: 'value', value: text === 'true' };
      case 'choice': {
        if (text === 'as proposed' && before !== undefined) return { kind: 'value', value: before };
        const option = /^\d+$/.test(text) ? shape.options[Number(text)] : undefined;
        return option === undefined ? this.#wrong(field, 'must be one of the options') : { kind: 'value', ...option };
      }
      case 'json': {
        const read = writtenJson(text);
        return 'value' in read ? { kind: 'value', value: read.value } : this.#wrong(field, read.reason);
      }
    }
  }

  #nothing(field: Field): Given {
    const { shape, before, isRequired } = field;
    if (shape.isNullable === true && (before === null || isRequired)) return { kind: 'value', value: null };
    if (isRequired) return MISSING;
    if (before === undefined) return OUT;
    // A text that was there may become empty; nothing else has an empty form.
    if (shape.kind === 'text') return this.#checked(field, '', lengthProblem(shape, ''));
    return this.#wrong(
      field,
      field.isOmissible ? 'has no value: write one, or leave the argument out' : 'has no value',
    );
  }

  #checked(field: Field, value: JsonValue, problem: string | undefined): Given {
    return problem === undefined || value === field.before ? { kind: 'value', value } : this.#wrong(field, problem);
  }

  #number(field: Field, shape: Extract<Kind, { kind: 'number' }>, text: string): Given {
    const { before } = field;
    if (typeof before === 'number' && text === String(before)) return { kind: 'value', value: before };
    const read = writtenNumber(text);
    if ('reason' in read) return this.#wrong(field, read.reason);
    return this.#checked(field, read.value, numberProblem(shape, read.value));
  }

  /** An object that is not there, and may stay out, is there once one of its fields is given. */
  #objectGiven(field: Field): Given {
    const { inner, before, isRequired } = field;
    const all = inner.map((each) => ({ each, given: this.#given(each) }));
    const isThere =
      before !== undefined || isRequired || all.some(({ given: { kind } }) => kind === 'value' || kind === 'wrong');
    if (!isThere) return OUT;
    for (const { each, given } of all) if (given.kind === 'missing') this.#wrong(each, 'is required');
    const members = all.flatMap(({ each, given }) =>
      given.kind === 'value' ? [[each.name, given.value] as const] : [],
    );
    return { kind: 'value', value: Object.fromEntries(members) };
  }

  #listGiven(field: Field, { least = 0, most }: Extract<Kind, { kind: 'list' }>): Given {
    const { inner, before, isRequired } = field;
    const items = inner.flatMap((each) => {
      const given = this.#given(each);
      return given.kind === 'value' ? [given.value] : [];
    });
    if (items.length === 0 && before === undefined && !isRequired) return OUT;
    if (items.length < least) return this.#wrong(field, `must have at least ${least} items`);
    if (most !== undefined && items.length > most) return this.#wrong(field, `must have at most ${most} items`);
    return { kind: 'value', value: items };
  }
}

function lengthProblem({ least = 0, most }: Extract<Kind, { kind: 'text' }>, text: string): string | undefined {
  const { length } = [...text];
  if (length < least) return `must have at least ${least} characters`;
  return most !== undefined && length > most ? `must have at most ${most} characters` : undefined;
}

function numberProblem(
  { isWhole, least, most, above, below, step }: Extract<Kind, { kind: 'number' }>,
  value: number,
): string | undefined {
  if (isWhole && !Number.isInteger(value)) return 'must be a whole number';
  if (least !== undefined && value < least) return `must be at least ${least}`;
  if (most !== undefined && value > most) return `must be at most ${most}`;
  if (above !== undefined && value <= above) return `must be more than ${above}`;
  if (below !== undefined && value >= below) return `must be less than ${below}`;
  return step !== undefined && !isMultiple(value, step) ? `must be a multiple of ${step}` : undefined;
}

/** Decimal steps are inexact in binary: a remainder of a billionth of a step is none. */
function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  return Math.abs(quotient - Math.round(quotient)) < 1e-9 * Math.max(1, Math.abs(quotient));
}

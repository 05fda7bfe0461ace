/**
 * Makes the fields of the edit form from a tool's input schema (JSON Schema 2020-12) and the arguments as proposed.
 *
 * 1. A schema is a server's text: what is too large, too deep or not understood becomes a field for JSON, and a schema
 *    that says nothing usable leaves fields by the kinds of the values. It can hide no argument.
 * 2. Fields and their words are bounded.
 * 3. A value that is not of the kind that the schema names is edited as JSON, as it is.
 */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { isObject, isPlain } from '../kit/faithful.ts';
import { JSON_SHAPE, listOf, type Member, MOST_FIELDS, MOST_LEVELS, rootShape, SEE, type Shape } from './shapes.ts';

const MOST_HELP_CHARACTERS = 16_000;
export const MOST_ITEMS = 50;

/** A field of the form: a shape at its place, with the value that was proposed there. */
export interface Field {
  /** Name in the form: `argument.0.2`. */
  readonly id: string;
  /** Name of the argument; `item 1` in a list. */
  readonly name: string;
  /** Place in the arguments, for messages: `payee.iban`. */
  readonly path: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
  readonly isOmissible: boolean;
  /** Absent if there is no such argument. */
  readonly before?: JsonValue;
  readonly inner: readonly Field[];
}

export interface EditForm {
  readonly fields: readonly Field[];
  readonly isOpen: boolean;
}

/** Says how many items a list of the form has; undefined for as many as were proposed. */
export type Lengths = (id: string) => number | undefined;

/** @param schema absent if the definition cannot be read */
export function editForm(schema: JsonObject | undefined, args: JsonObject, lengths: Lengths): EditForm {
  const root = schema === undefined ? undefined : rootShape(schema);
  const members = root?.kind === 'object' ? root.members : [];
  const maker = new Fields(lengths);
  return {
    fields: maker.members('argument', '', args, members),
    isOpen: root?.kind !== 'object' || root.isOpen,
  };
}

class Fields {
  readonly #lengths: Lengths;
  #made = 0;
  #helpLeft = MOST_HELP_CHARACTERS;

  constructor(lengths: Lengths) {
    this.#lengths = lengths;
  }

  /** The arguments in their own order, then what else the schema knows. */
  members(id: string, path: string, values: JsonObject, members: readonly Member[]): readonly Field[] {
    const known = new Map(members.map((member) => [member.name, member]));
    const given = Object.entries(values).map(([name, before]) => {
      const member = known.get(name);
      known.delete(name);
      return { name, before, shape: member?.shape ?? JSON_SHAPE, isRequired: member?.isRequired ?? false };
    });
    return [...given, ...known.values()].map((each, index) =>
      this.#field({
        ...each,
        id: `${id}.${index}`,
        path: path === '' ? each.name : `${path}.${each.name}`,
        isOmissible: 'before' in each && !each.isRequired,
      }),
    );
  }

  #field(place: Omit<Field, 'inner'>): Field {
    this.#made += 1;
    const { id, path, before } = place;
    const isTooMuch = this.#made > MOST_FIELDS || id.split('.').length > MOST_LEVELS + 1;
    const shape = isTooMuch ? JSON_SHAPE : this.#helped(fitting(place.shape, before));
    const field = { ...place, shape };
    if (shape.kind === 'object')
      return { ...field, inner: this.members(id, path, isObject(before) ? before : {}, shape.members) };
    if (shape.kind !== 'list') return { ...field, inner: [] };
    const items = listOf(before);
    const length = Math.min(this.#lengths(id) ?? items.length, Math.max(MOST_ITEMS, items.length));
    const inner = Array.from({ length }, (_, index) => {
      const item = items[index];
      const at = { id: `${id}.${index}`, name: `item ${index + 1}`, path: `${path}[${index}]`, shape: shape.item };
      return this.#field({
        ...at,
        isRequired: false,
        isOmissible: item !== undefined,
        ...defined({ before: item }),
      });
    });
    return { ...field, inner };
  }

  /** Keeps the server's words while there is room for them in the form. */
  #helped(shape: Shape): Shape {
    const { title = '', description = '', notes } = shape;
    const length = [title, description, ...notes].reduce((sum, text) => sum + text.length, 0);
    if (length <= this.#helpLeft) {
      this.#helpLeft -= length;
      return shape;
    }
    const { title: _, description: __, ...rest } = shape;
    return { ...rest, notes: [SEE] };
  }
}

/** A value of another kind than the schema names keeps a field of its own kind. */
function fitting(shape: Shape, before: JsonValue | undefined): Shape {
  if (before === undefined)
    return shape.kind === 'object' && shape.members.length === 0 ? { ...shape, kind: 'json' } : shape;
  if (before === null && shape.isNullable === true)
    // The fields of an object or a list cannot say that there is none.
    return shape.kind === 'object' || shape.kind === 'list'
      ? { kind: 'json', ...wordsOf(shape), isNullable: true }
      : shape;
  // A field would hide some characters, or move them: as JSON, they are escapes.
  if (typeof before === 'string' && !isPlain(before) && shape.kind !== 'choice') return { ...shape, kind: 'json' };
  return IS_OF_KIND[shape.kind](before) ? shape : { ...natural(before), ...wordsOf(shape) };
}

const IS_OF_KIND: Readonly<Record<Shape['kind'], (value: JsonValue) => boolean>> = {
  text: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  choice: () => true,
  object: isObject,
  list: (value) => Array.isArray(value) && value.length <= MOST_ITEMS,
  json: () => false,
};

function natural(value: JsonValue): Shape {
  if (isObject(value)) return { kind: 'object', members: [], isOpen: true, notes: [] };
  if (typeof value === 'string') return isPlain(value) ? { kind: 'text', keyboard: 'text', notes: [] } : JSON_SHAPE;
  if (typeof value === 'number') return { kind: 'number', isWhole: false, notes: [] };
  return typeof value === 'boolean' ? { kind: 'boolean', notes: [] } : JSON_SHAPE;
}

function wordsOf({ title, description, notes }: Shape): Pick<Shape, 'title' | 'description' | 'notes'> {
  return { notes, ...defined({ title, description }) };
}

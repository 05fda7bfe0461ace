/**
 * Makes the fields of the edit form from a tool's input schema (JSON Schema 2020-12) and the arguments as proposed.
 *
 * 1. A schema is a server's text: what is too large, too deep or not understood becomes a field for JSON, and a schema
 *    that says nothing usable leaves fields by the kinds of the values. It can hide no argument.
 * 2. Only references into the schema itself are followed. Depth and number of fields are bounded, so that one that
 *    refers to itself ends.
 * 3. A value that is not of the kind that the schema names is edited as JSON, as it is.
 * 4. Regular expressions of a schema are told and never run: neither here nor in the browser of an approver.
 */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import { isList, isObject, isPlain } from '../kit/faithful.ts';

const MOST_SCHEMA_CHARACTERS = 131_072;
const MOST_FIELDS = 250;
export const MOST_LEVELS = 5;
const MOST_OPTIONS = 100;
const MOST_REFERENCES = 8;
export const MOST_ITEMS = 50;

export interface Option {
  readonly value: JsonValue;
  readonly title?: string;
}

/** What a field takes. `json`: any value, as JSON text. */
export type Kind =
  | {
      readonly kind: 'text';
      readonly least?: number;
      readonly most?: number;
      readonly keyboard: 'text' | 'email' | 'url';
    }
  | {
      readonly kind: 'number';
      readonly isWhole: boolean;
      readonly least?: number;
      readonly most?: number;
      readonly above?: number;
      readonly below?: number;
      readonly step?: number;
    }
  | { readonly kind: 'boolean' }
  | { readonly kind: 'choice'; readonly options: readonly Option[] }
  | { readonly kind: 'object'; readonly members: readonly Member[]; readonly isOpen: boolean }
  | { readonly kind: 'list'; readonly item: Shape; readonly least?: number; readonly most?: number }
  | { readonly kind: 'json' };

/** A kind with the server's words about it. */
export type Shape = Kind & {
  readonly title?: string;
  readonly description?: string;
  /** What the schema asks for beyond what a field checks. */
  readonly notes: readonly string[];
  readonly isNullable?: true;
};

export interface Member {
  readonly name: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
}

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
  /** True if the form may leave the value out. */
  readonly isOmissible: boolean;
  /** Absent if there is no such argument. */
  readonly before?: JsonValue;
  /** Members of an object, items of a list. */
  readonly inner: readonly Field[];
}

export interface EditForm {
  readonly fields: readonly Field[];
  /** True if arguments without a field are allowed. */
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

  constructor(lengths: Lengths) {
    this.#lengths = lengths;
  }

  /** The arguments in their own order, then what else the schema knows. */
  members(id: string, path: string, values: JsonObject, members: readonly Member[]): readonly Field[] {
    const known = new Map(members.map((member) => [member.name, member]));
    const given = Object.entries(values).map(([name, before]) => {
      const member = known.get(name);
      known.delete(name);
      return { name, before, shape: member?.shape ?? ANY, isRequired: member?.isRequired ?? false };
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
    const shape = isTooMuch ? JSON_SHAPE : fitting(place.shape, before);
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
  return isOfKind(shape, before) ? shape : { ...natural(before), ...wordsOf(shape) };
}

function isOfKind(shape: Shape, value: JsonValue): boolean {
  switch (shape.kind) {
    case 'text':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'choice':
      return true;
    case 'object':
      return isObject(value);
    case 'list':
      return Array.isArray(value) && value.length <= MOST_ITEMS;
    case 'json':
      return false;
  }
}

function natural(value: JsonValue): Shape {
  if (isObject(value)) return { kind: 'object', members: [], isOpen: true, notes: [] };
  if (typeof value === 'string') return isPlain(value) ? { kind: 'text', keyboard: 'text', notes: [] } : JSON_SHAPE;
  if (typeof value === 'number') return { kind: 'number', isWhole: false, notes: [] };
  return typeof value === 'boolean' ? { kind: 'boolean', notes: [] } : JSON_SHAPE;
}

function wordsOf({ title, description, notes }: Shape): Pick<Shape, 'title' | 'description' | 'notes'> {
  return { notes, ...defined({ title, description }) };
}

const JSON_SHAPE: Shape = { kind: 'json', notes: [] };
/** Takes the kind of the value. */
const ANY = JSON_SHAPE;

// Shapes of schemas.

function rootShape(schema: JsonObject): Shape | undefined {
  return JSON.stringify(schema).length > MOST_SCHEMA_CHARACTERS ? undefined : new Shapes(schema).of(schema, 0);
}

class Shapes {
  readonly #root: JsonObject;
  #made = 0;

  constructor(root: JsonObject) {
    this.#root = root;
  }

  of(given: JsonValue | undefined, level: number): Shape {
    this.#made += 1;
    const schema = this.#resolved(given);
    if (schema === undefined || level > MOST_LEVELS || this.#made > MOST_FIELDS) return ANY;
    const only = onlyMeant(schema);
    if (only !== undefined) {
      const { kind, ...inner } = this.of(only, level + 1);
      // Sound: the kind and its own fields stay together.
      return { kind, ...inner, ...defined(labels(schema)), isNullable: true } as Shape;
    }
    // Sound: the kind and its own fields stay together.
    return { ...this.#kind(schema, level), ...defined(labels(schema)), notes: notesOf(schema), ...nullable(schema) };
  }

  #kind(schema: JsonObject, level: number): Kind {
    const options = optionsOf(schema);
    if (options !== undefined) return options.length > MOST_OPTIONS ? { kind: 'json' } : { kind: 'choice', options };
    switch (typeOf(schema)) {
      case 'string':
        return {
          kind: 'text',
          keyboard: KEYBOARDS.get(schema['format']) ?? 'text',
          ...bounds(schema, 'minLength', 'maxLength'),
        };
      case 'number':
        return { kind: 'number', isWhole: false, ...numeric(schema) };
      case 'integer':
        return { kind: 'number', isWhole: true, ...numeric(schema) };
      case 'boolean':
        return { kind: 'boolean' };
      case 'object': {
        const names = listOf(schema['required']);
        const properties = isObject(schema['properties']) ? Object.entries(schema['properties']) : [];
        return {
          kind: 'object',
          isOpen: schema['additionalProperties'] !== false,
          members: properties.map(([name, inner]) => ({
            name,
            shape: this.of(inner, level + 1),
            isRequired: names.includes(name),
          })),
        };
      }
      case 'array':
        return 'prefixItems' in schema || !isObject(schema['items'])
          ? { kind: 'json' }
          : { kind: 'list', item: this.of(schema['items'], level + 1), ...bounds(schema, 'minItems', 'maxItems') };
      default:
        return { kind: 'json' };
    }
  }

  /** Follows references into the schema itself; undefined for any other. */
  #resolved(given: JsonValue | undefined): JsonObject | undefined {
    let schema = given;
    for (let hops = 0; hops < MOST_REFERENCES; hops += 1) {
      if (!isObject(schema)) return undefined;
      const ref = schema['$ref'];
      if (ref === undefined) return schema;
      if (typeof ref !== 'string' || !ref.startsWith('#/')) return undefined;
      const { $ref: _, ...beside } = schema;
      const target = ref.slice(2).split('/').reduce<JsonValue | undefined>(stepInto, this.#root);
      schema = isObject(target) ? { ...target, ...beside } : undefined;
    }
    return undefined;
  }
}

/** RFC 6901. */
function stepInto(at: JsonValue | undefined, step: string): JsonValue | undefined {
  const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
  return isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
}

/** The one schema beside null: `anyOf: [{ … }, { type: null }]`, as optional fields are often written. */
function onlyMeant(schema: JsonObject): JsonValue | undefined {
  const either = listOf(schema['anyOf'] ?? schema['oneOf']);
  const meant = either.filter((each) => !isObject(each) || each['type'] !== 'null');
  return either.length === 2 && meant.length === 1 ? meant[0] : undefined;
}

function nullable(schema: JsonObject): { readonly isNullable?: true } {
  return listOf(schema['type']).includes('null') ? { isNullable: true } : {};
}

function typeOf(schema: JsonObject): JsonValue | undefined {
  const types = listOf(schema['type']).filter((type) => type !== 'null');
  if (types.length > 0) return types.length === 1 ? types[0] : undefined;
  return schema['type'] ?? ('properties' in schema ? 'object' : undefined);
}

function optionsOf(schema: JsonObject): readonly Option[] | undefined {
  if ('const' in schema) return [{ value: schema['const'] }];
  const values = listOf(schema['enum']);
  if (values.length > 0) return values.map((value) => ({ value }));
  const either = listOf(schema['oneOf'] ?? schema['anyOf']);
  const options = either.flatMap((each) =>
    isObject(each) && 'const' in each ? [{ value: each['const'], ...titleOf(each) }] : [],
  );
  return options.length > 0 && options.length === either.length ? options : undefined;
}

const KEYBOARDS: ReadonlyMap<JsonValue | undefined, 'email' | 'url'> = new Map([
  ['email', 'email'],
  ['uri', 'url'],
]);

function numeric(schema: JsonObject): Partial<Extract<Kind, { kind: 'number' }>> {
  const step = numberAt(schema, 'multipleOf');
  return defined({
    ...bounds(schema, 'minimum', 'maximum'),
    above: numberAt(schema, 'exclusiveMinimum'),
    below: numberAt(schema, 'exclusiveMaximum'),
    step: step !== undefined && step > 0 ? step : undefined,
  });
}

/** Bounds between which nothing is are no bounds. */
function bounds(schema: JsonObject, low: string, high: string): { readonly least?: number; readonly most?: number } {
  const [least, most] = [numberAt(schema, low), numberAt(schema, high)];
  return least !== undefined && most !== undefined && least > most ? {} : defined({ least, most });
}

function numberAt(schema: JsonObject, name: string): number | undefined {
  const value = schema[name];
  return typeof value === 'number' ? value : undefined;
}

function labels(schema: JsonObject): { readonly title?: string; readonly description?: string } {
  const { description } = schema;
  return { ...titleOf(schema), ...(typeof description === 'string' ? { description } : {}) };
}

function titleOf({ title: said }: JsonObject): { readonly title?: string } {
  return typeof said === 'string' && said !== '' ? { title: said } : {};
}

function notesOf(schema: JsonObject): readonly string[] {
  const { pattern, format, default: fallback, uniqueItems } = schema;
  return [
    ...(typeof pattern === 'string' ? [`must match ${pattern}`] : []),
    ...(typeof format === 'string' ? [`format ${format}`] : []),
    ...(fallback === undefined ? [] : [`without it: ${canonicalJson(fallback)}`]),
    ...(uniqueItems === true ? ['each item once'] : []),
  ];
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return isList(value) ? value : [];
}

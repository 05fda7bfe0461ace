/**
 * Reads a tool's input schema (JSON Schema 2020-12) into the shapes that fields may have.
 *
 * 1. Only references into the schema itself are followed. Depth, fields and words are bounded, so that one that refers
 *    to itself ends, and one that is referred to often does not grow.
 * 2. Regular expressions of a schema are told and never run: neither here nor in the browser of an approver.
 */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import { isList, isObject } from '../kit/faithful.ts';

const MOST_SCHEMA_CHARACTERS = 131_072;
const MOST_OPTIONS = 100;
const MOST_OPTION_CHARACTERS = 4_000;
const MOST_REFERENCES = 8;
const MOST_REFERENCE_CHARACTERS = 1_000;
const MOST_TEXT_CHARACTERS = 2_000;
const MOST_TITLE_CHARACTERS = 200;
export const MOST_FIELDS = 250;
export const MOST_LEVELS = 5;
/** Stands where words are cut. */
export const SEE = 'see the definition';

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

export const JSON_SHAPE: Shape = { kind: 'json', notes: [] };

/** @returns undefined for a schema that is too large to be read */
export function rootShape(schema: JsonObject): Shape | undefined {
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
    if (level > MOST_LEVELS || this.#made > MOST_FIELDS) return JSON_SHAPE;
    const schema = this.#resolved(given);
    if (schema === undefined) return JSON_SHAPE;
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
    if (options !== undefined) return areFew(options) ? { kind: 'choice', options } : { kind: 'json' };
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
        const { members, isWhole } = this.#members(schema, level);
        return { kind: 'object', isOpen: schema['additionalProperties'] !== false || !isWhole, members };
      }
      case 'array':
        return 'prefixItems' in schema || !isObject(schema['items'])
          ? { kind: 'json' }
          : { kind: 'list', item: this.of(schema['items'], level + 1), ...bounds(schema, 'minItems', 'maxItems') };
      default:
        return { kind: 'json' };
    }
  }

  /** `isWhole`: false if there are more properties than a form has fields. */
  #members(schema: JsonObject, level: number): { readonly members: readonly Member[]; readonly isWhole: boolean } {
    const required = new Set(listOf(schema['required']));
    const properties = isObject(schema['properties']) ? schema['properties'] : {};
    const members: Member[] = [];
    for (const [name, inner] of Object.entries(properties)) {
      if (this.#made >= MOST_FIELDS) return { members, isWhole: false };
      members.push({ name, shape: this.of(inner, level + 1), isRequired: required.has(name) });
    }
    return { members, isWhole: true };
  }

  /** Follows references into the schema itself; undefined for any other. */
  #resolved(given: JsonValue | undefined): JsonObject | undefined {
    let schema = given;
    for (let hops = 0; hops < MOST_REFERENCES; hops += 1) {
      if (!isObject(schema)) return undefined;
      const ref = schema['$ref'];
      if (ref === undefined) return schema;
      if (typeof ref !== 'string' || !ref.startsWith('#/') || ref.length > MOST_REFERENCE_CHARACTERS) return undefined;
      const target = ref.slice(2).split('/').reduce<JsonValue | undefined>(stepInto, this.#root);
      schema = isObject(target) ? { ...read(target), ...read(schema, '$ref') } : undefined;
    }
    return undefined;
  }
}

const KEYWORDS = [
  '$ref type const enum anyOf oneOf title description default format pattern minLength maxLength',
  'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf',
  'properties required additionalProperties items prefixItems minItems maxItems uniqueItems',
].flatMap((names) => names.split(' '));

/** What is read of a schema: a copy of everything in it, for each reference to it, could be very large. */
function read(schema: JsonObject, except?: string): JsonObject {
  // Sound: JSON has no undefined.
  const entries = KEYWORDS.map((name) => [name, schema[name]] as const);
  return Object.fromEntries(entries.filter(([name, value]) => value !== undefined && name !== except)) as JsonObject;
}

/** RFC 6901. */
function stepInto(at: JsonValue | undefined, step: string): JsonValue | undefined {
  const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
  return isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
}

/** The one schema beside null: `anyOf: [{ … }, { type: null }]`, as optional fields are often written. */
function onlyMeant(schema: JsonObject): JsonValue | undefined {
  const either = listOf(schema['anyOf'] ?? schema['oneOf']);
  if (either.length !== 2) return undefined;
  const meant = either.filter((each) => !isObject(each) || each['type'] !== 'null');
  return meant.length === 1 ? meant[0] : undefined;
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

/** False if the options would make a page too long, once for each field that refers to them. */
function areFew(options: readonly Option[]): boolean {
  if (options.length > MOST_OPTIONS) return false;
  const texts = options.map(({ value, title }) => title ?? JSON.stringify(value));
  return texts.reduce((sum, { length }) => sum + length, 0) <= MOST_OPTION_CHARACTERS;
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
  return { ...titleOf(schema), ...(typeof description === 'string' ? { description: shortened(description) } : {}) };
}

function titleOf({ title: said }: JsonObject): { readonly title?: string } {
  return typeof said === 'string' && said !== '' ? { title: shortened(said, MOST_TITLE_CHARACTERS) } : {};
}

const fallbacks = new WeakMap<object, string>();

/** Written once, however often the schema refers to it. */
function fallbackText(fallback: JsonValue): string {
  if (typeof fallback !== 'object' || fallback === null) return canonicalJson(fallback);
  const text = fallbacks.get(fallback) ?? shortened(canonicalJson(fallback));
  fallbacks.set(fallback, text);
  return text;
}

function notesOf(schema: JsonObject): readonly string[] {
  const { pattern, format, default: fallback, uniqueItems } = schema;
  return [
    ...(typeof pattern === 'string' ? [`must match ${pattern}`] : []),
    ...(typeof format === 'string' ? [`format ${format}`] : []),
    ...(fallback === undefined ? [] : [`without it: ${fallbackText(fallback)}`]),
    ...(uniqueItems === true ? ['each item once'] : []),
  ].map((note) => shortened(note));
}

function shortened(text: string, most = MOST_TEXT_CHARACTERS): string {
  // Half of a character is none.
  return text.length <= most ? text : `${text.slice(0, most).replace(/[\ud800-\udbff]$/, '')}… (${SEE})`;
}

export function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return isList(value) ? value : [];
}

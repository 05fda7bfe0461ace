/**
 * Applies JSON Schemas of servers to values.
 *
 * 1. A schema is a server's text: who applies it bounds the time (`time-limit.ts`), since references may double the
 *    work at each level, and a pattern may take for ever. The length of a pattern bounds its compilation.
 * 2. A schema that cannot be used is told apart from one that a value fits: callers fail closed (INV-G4). A keyword
 *    that the validator would pass over, and that constrains values, makes a schema unusable.
 */
import {
  dereference,
  format as formats,
  type Schema,
  schemaArrayKeyword,
  type SchemaDraft,
  schemaKeyword,
  schemaMapKeyword,
  Validator,
} from '@cfworker/json-schema';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';
import { isJsonObject } from './json.ts';

/** UTF-8 bytes of a schema as canonical JSON. */
export const MOST_SCHEMA_BYTES = 65_536;
/** Measured: a schema as objects takes 3 bytes for each of its JSON; small objects take more. */
const BYTES_PER_CHARACTER = 10;
const MOST_ERRORS = 10;
const ERROR_CHARACTERS = 300;

/** UTF-16 units of one pattern: nothing can end the engine while it compiles one, which takes 0.1 s for these. */
export const LONGEST_SCHEMA_PATTERN = 2_000;

const TIME = '([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)(\\.\\d+)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)';
const DATE = '\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])';
const BYTE = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';

/** Formats that are checked, so that they refuse no more than they always did; the validator's own differ. */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}[Tt ]${TIME}`,
  duration: 'P(\\d+W|(\\d+Y)?(\\d+M)?(\\d+D)?(T(\\d+H)?(\\d+M)?(\\d+(\\.\\d+)?S)?)?)',
  email: '.+@[^@\\s]+',
  ipv4: `${BYTE}(\\.${BYTE}){3}`,
  hostname: `${LABEL}(\\.${LABEL})*`,
  uri: '[A-Za-z][A-Za-z0-9+.-]*:\\S*',
  'uri-reference': '\\S*',
  uuid: '[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}',
  'json-pointer': '(/([^~/]|~[01])*)*',
};

// The validator looks formats up by name; one that is not there is a remark (JSON Schema 2020-12, section 7.2).
Object.setPrototypeOf(formats, null);
for (const name of Object.keys(formats)) delete formats[name];
for (const [name, pattern] of Object.entries(FORMATS)) {
  const whole = new RegExp(`^(?:${pattern})$`, 'su');
  formats[name] = (text) => whole.test(text);
}
formats['ipv6'] = (text) => /^[0-9A-Fa-f:.]{2,45}$/.test(text) && URL.canParse(`http://[${text}]/`);

/** Why a schema cannot be used; continues "its schema". */
export class SchemaUnusable extends Error {
  override readonly name = 'SchemaUnusable';
}

/** MCP 2025-11-25, "JSON Schema Usage"; servers on older SDKs name draft-07. */
const DRAFTS: ReadonlyMap<string, SchemaDraft> = new Map([
  ['draft-04', '4'],
  ['draft-06', '7'],
  ['draft-07', '7'],
  ['draft/2019-09', '2019-09'],
  ['draft/2020-12', '2020-12'],
]);
const DIALECT = /^https?:\/\/json-schema\.org\/([a-z0-9/-]+)\/schema#?$/;

export class ServerSchema {
  /** About what it takes at most. */
  readonly bytes: number;
  readonly #validator: Validator;

  /** @throws SchemaUnusable */
  constructor(schema: JsonObject) {
    const bytes = byteLength(canonicalJson(schema));
    if (bytes > MOST_SCHEMA_BYTES) throw new SchemaUnusable(`has ${bytes} bytes; ${MOST_SCHEMA_BYTES} are checked`);
    const draft = draftOf(schema);
    refuseLongPatterns(schema);
    for (const [each] of schemasIn(schema)) refuseUnknown(each);
    // A copy, since the validator writes into it. Sound: it takes any JSON object, and throws on an invalid schema.
    this.#validator = new Validator(structuredClone(schema) as Schema, draft, false);
    this.bytes = bytes * BYTES_PER_CHARACTER;
  }

  /**
   * Returns problems, as `problemsBy` does.
   * @throws SchemaUnusable if the schema refers to nowhere, or has a broken pattern
   */
  problems(value: unknown): readonly string[] {
    try {
      return problemsBy(this.#validator, value);
    } catch (error) {
      throw new SchemaUnusable(`cannot be applied (${error instanceof Error ? error.name : 'error'})`);
    }
  }
}

/** Returns problems as `path: reason`, bounded and without a full stop, the innermost last; empty if the value fits. */
export function problemsBy(validator: Validator, value: unknown): readonly string[] {
  const { valid, errors } = validator.validate(value);
  const last = valid ? [] : errors.slice(-MOST_ERRORS);
  return last.map(({ instanceLocation, error }) =>
    `${instanceLocation}: ${error.replace(/\.$/, '')}`.slice(0, ERROR_CHARACTERS),
  );
}

/**
 * Returns the draft that the schema names, 2020-12 if it names none (MCP).
 * @throws SchemaUnusable for another dialect
 */
function draftOf({ $schema }: JsonObject): SchemaDraft {
  if ($schema === undefined) return '2020-12';
  const draft = typeof $schema === 'string' ? DRAFTS.get(DIALECT.exec($schema)?.[1] ?? '') : undefined;
  if (draft === undefined) throw new SchemaUnusable('is of a dialect that is not known');
  return draft;
}

const VOCABULARY = /^https:\/\/json-schema\.org\/draft\/20(19-09|20-12)\/vocab\/[a-z-]+$/;

/** Looks into data, too: a reference makes a schema of it. */
function refuseLongPatterns(schema: JsonValue): void {
  if (typeof schema !== 'object' || schema === null) return;
  const { pattern = '', patternProperties = {} } = isJsonObject(schema) ? schema : {};
  for (const each of [pattern, ...(isJsonObject(patternProperties) ? Object.keys(patternProperties) : [])])
    if (typeof each === 'string' && each.length > LONGEST_SCHEMA_PATTERN)
      throw new SchemaUnusable(`has a pattern of ${each.length} characters; ${LONGEST_SCHEMA_PATTERN} are checked`);
  for (const each of Object.values(schema)) refuseLongPatterns(each);
}

/** Refuses what the validator would pass over. */
function refuseUnknown({ $dynamicRef, $recursiveRef, $vocabulary, ...schema }: JsonObject): void {
  const { pattern = '', patternProperties = {}, dependencies = {} } = schema;
  if (typeof pattern !== 'string') throw new SchemaUnusable('has a pattern that is no text');
  if (!isJsonObject(patternProperties)) throw new SchemaUnusable('has patternProperties that are no map');
  const isKnown = (each: JsonValue): boolean => isList(each) || isJsonObject(each) || typeof each === 'boolean';
  if (!isJsonObject(dependencies) || !Object.values(dependencies).every(isKnown))
    throw new SchemaUnusable('has dependencies that are no map of names and schemas');
  if ($dynamicRef !== undefined) throw new SchemaUnusable('has a $dynamicRef');
  if ($recursiveRef !== undefined && $recursiveRef !== '#')
    throw new SchemaUnusable('has a $recursiveRef that is not #');
  if ($vocabulary === undefined) return;
  if (!isJsonObject($vocabulary) || !Object.keys($vocabulary).every((name) => VOCABULARY.test(name)))
    throw new SchemaUnusable('has a $vocabulary that is not known');
}

/** Keywords whose value is data, not a schema. */
const DATA = new Set(['const', 'enum', 'default', 'examples', 'dependentRequired']);
/** Keywords whose value maps names to schemas. */
const NAMED = new Set(['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions']);

/** The place of a schema: the whole, at the end of a chain of `properties` alone, or anywhere else. */
export type SchemaPlace = 'root' | 'property' | 'elsewhere';

/** Gives a schema, and each that stands within it. A property may bear the name of a keyword. */
export function* schemasIn(
  schema: JsonValue | undefined,
  place: SchemaPlace = 'root',
): Generator<readonly [JsonObject, SchemaPlace]> {
  if (isList(schema)) for (const each of schema) yield* schemasIn(each, 'elsewhere');
  if (!isJsonObject(schema)) return;
  yield [schema, place];
  for (const [keyword, value] of Object.entries(schema)) {
    if (DATA.has(keyword)) continue;
    const isChained = keyword === 'properties' && place !== 'elsewhere';
    if (!NAMED.has(keyword)) yield* schemasIn(value, 'elsewhere');
    else if (isJsonObject(value))
      for (const each of Object.values(value)) yield* schemasIn(each, isChained ? 'property' : 'elsewhere');
  }
}

const TYPES: ReadonlySet<unknown> = new Set(['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']);
/** Keywords whose schemas every value, or every part of one, must fit. */
const BINDING: ReadonlySet<string> = new Set(['properties', 'items', 'prefixItems', 'allOf']);

/**
 * Returns the first slip in a schema that a caller wrote, as the validator reads it: a type that is none where one must
 * hold, or a reference that leads nowhere, which it finds only when a value leads to it. Parts
 * that no value can meet are not looked at, such as an unknown keyword or a definition that nothing names.
 */
export function slipIn(schema: JsonObject): string | undefined {
  // A copy, since places are written into it. Sound: any JSON object may be tried.
  const whole = structuredClone(schema) as Schema;
  let places: Record<string, Schema | boolean>;
  try {
    places = dereference(whole);
  } catch {
    return 'is not a valid JSON Schema';
  }
  /** Schemas that were looked at, and whether as binding ones. */
  const seen = new Map<object, boolean>();
  const left: (readonly [schema: unknown, isBinding: boolean])[] = [[whole, true]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [at, isBinding] = next;
    if (typeof at !== 'object' || at === null) continue;
    const before = seen.get(at);
    if (before === true || before === isBinding) continue;
    seen.set(at, isBinding);
    // Sound: an object where a schema stands.
    const { type, $ref, __absolute_ref__: target, ...keywords } = at as Schema & Readonly<Record<string, unknown>>;
    const wrong: unknown = isBinding ? [type ?? []].flat().find((name) => !TYPES.has(name)) : undefined;
    if (wrong !== undefined) return `has type ${JSON.stringify(wrong)}, which is none of ${[...TYPES].join(', ')}`;
    // `dereference` writes the target beside a reference; elsewhere it is a field of the caller's own.
    if (typeof $ref === 'string' && typeof target === 'string') {
      if (places[target] === undefined) return `refers to ${$ref}, which is not there`;
      left.push([places[target], isBinding]);
    }
    for (const [keyword, value] of Object.entries(keywords))
      for (const each of appliedBy(keyword, value)) left.push([each, isBinding && BINDING.has(keyword)]);
  }
  return undefined;
}

/** Returns the schemas that a keyword applies. */
function appliedBy(keyword: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return keyword in schemaArrayKeyword ? value : [];
  if (typeof value !== 'object' || value === null || keyword === '$defs' || keyword === 'definitions') return [];
  if (keyword in schemaMapKeyword) return Object.values(value);
  return keyword in schemaKeyword ? [value] : [];
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

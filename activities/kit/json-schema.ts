/**
 * Applies JSON Schemas of servers to values, in linear time for patterns and formats.
 *
 * 1. A schema is a server's text, and one hostile regular expression would stall a worker. The validator evaluates none
 *    of them: patterns are RE2, and formats are those below. What RE2 does not know (lookaround, references back) makes
 *    a schema unusable, and what it reads otherwise than ECMAScript. So does a pattern or format that was not rewritten and that a reference can reach.
 * 2. A schema that cannot be used is told apart from one that a value fits: callers fail closed (INV-G4). A keyword that
 *    the validator would pass over, and that constrains values, makes a schema unusable.
 */
import {
  dereference,
  format as validatorFormats,
  type Schema,
  type SchemaDraft,
  Validator,
} from '@cfworker/json-schema';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { canonicalJson, byteLength } from '../../domain/text/canonical.ts';
import { re2Of } from './ecma-pattern.ts';
import { Re2Pattern } from './re2-pattern.ts';

/** UTF-8 bytes of a schema as canonical JSON. */
export const MOST_SCHEMA_BYTES = 65_536;
/** UTF-16 units of one pattern. */
export const LONGEST_SCHEMA_PATTERN = 2_000;
/** Measured: a schema as objects, rewritten, takes 3 bytes for each of its JSON; small objects take more. */
const BYTES_PER_CHARACTER = 10;
const MOST_ERRORS = 5;
const ERROR_CHARACTERS = 300;

/** Why a schema cannot be used; continues "its schema". */
export class SchemaUnusable extends Error {
  override readonly name = 'SchemaUnusable';
}

/** Returns the draft that the schema names, 2020-12 if it names none (MCP), and undefined for any other dialect. */
export function dialectOf({ $schema }: JsonObject): SchemaDraft | undefined {
  if ($schema === undefined) return '2020-12';
  return typeof $schema === 'string' ? DIALECTS.get($schema) : undefined;
}

/** MCP 2025-11-25, "JSON Schema Usage"; servers on older SDKs name draft-07. */
const DIALECTS: ReadonlyMap<string, SchemaDraft> = new Map(
  (
    [
      ['draft-04', '4'],
      ['draft-06', '7'],
      ['draft-07', '7'],
      ['draft/2019-09', '2019-09'],
      ['draft/2020-12', '2020-12'],
    ] as const
  ).flatMap(([name, draft]) =>
    ['http', 'https'].flatMap((scheme) =>
      ['', '#'].map((end): [string, SchemaDraft] => [`${scheme}://json-schema.org/${name}/schema${end}`, draft]),
    ),
  ),
);

/** Tells whether a text fits; `bytes` is about what it takes at most, where that is much. */
interface Check {
  readonly bytes: number;
  isIn(text: string): boolean;
}

/** Names under which the validator finds our checks; no schema can name them, since its own formats are renamed. */
const NAME = { pattern: 'pattern ', format: 'format ' } as const;

const TIME = '([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)(\\.\\d+)?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)';
const DATE = '\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])';
const BYTE = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';

/** Formats that are checked; another one is a remark (JSON Schema 2020-12, section 7.2). */
const FORMATS: ReadonlyMap<string, Check> = new Map<string, Check>([
  ...Object.entries({
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
  }).map(([name, pattern]): [string, Check] => [name, new Re2Pattern(`^(?:${pattern})$`, { dotAll: true })]),
  ['ipv6', { bytes: 0, isIn: (text) => /^[0-9A-Fa-f:.]{2,45}$/.test(text) && URL.canParse(`http://[${text}]/`) }],
]);

export class LinearSchema {
  /** About what it takes at most. */
  readonly bytes: number;
  readonly #schema: JsonObject;
  readonly #draft: SchemaDraft;
  readonly #checks = new Map<string, Check>();
  /** Patterns of property names. */
  readonly #names = new Map<string, Check>();
  /** Maps of literal names, which may go to the validator. */
  readonly #literal = new WeakSet();
  readonly #validator: Validator | undefined;

  /** @throws SchemaUnusable */
  constructor(schema: JsonObject) {
    const bytes = byteLength(canonicalJson(schema));
    if (bytes > MOST_SCHEMA_BYTES) throw new SchemaUnusable(`has ${bytes} bytes; ${MOST_SCHEMA_BYTES} are checked`);
    const draft = dialectOf(schema);
    if (draft === undefined) throw new SchemaUnusable('is of a dialect that is not known');
    this.#draft = draft;
    // Sound: an object is rewritten to an object.
    this.#schema = this.#rewritten(schema) as JsonObject;
    this.#validator = this.#names.size === 0 ? this.#applied(this.#schema) : undefined;
    const patterns = [...this.#checks.values(), ...this.#names.values()];
    this.bytes = patterns.reduce((sum, pattern) => sum + pattern.bytes, bytes * BYTES_PER_CHARACTER);
  }

  /**
   * Returns problems as `path: reason`, bounded; empty if the value fits.
   * @throws SchemaUnusable if the schema refers to nowhere
   */
  problems(value: JsonValue): readonly string[] {
    // Names that patterns allow are known only with the value.
    const validator = this.#validator ?? this.#applied(this.#named(this.#schema, keysOf(value)));
    for (const [name, check] of this.#checks) validatorFormats[name] = (text) => check.isIn(text);
    try {
      const { valid, errors } = validator.validate(value);
      const last = valid ? [] : errors.slice(-MOST_ERRORS);
      return last.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, ERROR_CHARACTERS));
    } catch (error) {
      throw new SchemaUnusable(`cannot be applied (${error instanceof Error ? error.name : 'error'})`);
    }
  }

  /** Takes the checks out of the validator, whose formats all schemas share. Also after a time limit has ended it. */
  release(): void {
    for (const name of this.#checks.keys()) delete validatorFormats[name];
  }

  #applied(schema: JsonValue): Validator {
    // Sound: the validator takes any JSON object and throws on an invalid schema.
    const applied = schema as Schema;
    for (const reachable of Object.values(dereference(applied))) this.#refuseUnseen(reachable);
    return new Validator(applied, this.#draft, false);
  }

  /** The validator resolves references also to places that are no schema to us. */
  #refuseUnseen(schema: Schema | boolean): void {
    if (typeof schema === 'boolean') return;
    const { pattern, format, patternProperties: names } = schema;
    const isSeen =
      pattern === undefined &&
      (format === undefined || this.#checks.has(format)) &&
      (names === undefined || this.#literal.has(names) || (isMap(names) && Object.keys(names).length === 0));
    if (!isSeen) throw new SchemaUnusable('has patterns or formats where no schema should be');
  }

  /** Names each pattern and format as a check of ours. A property may bear the name of a keyword. */
  #rewritten(schema: JsonValue, areNames = false): JsonValue {
    if (isList(schema)) return schema.map((item) => this.#rewritten(item));
    if (!isMap(schema)) return schema;
    if (areNames) return mapped(schema, (inner) => this.#rewritten(inner));
    refuseUnknown(schema);
    // The validator resolves references into examples, and takes a map of dependencies for a schema.
    const { pattern, format, examples: _, dependencies, ...others }: JsonObject = schema;
    const kept = mapped(others, (inner, key) =>
      DATA.includes(key) ? inner : this.#rewritten(inner, NAMED.includes(key)),
    );
    if (isMap(others['patternProperties']))
      for (const name of Object.keys(others['patternProperties'])) this.#names.set(name, this.#pattern(name));
    const checks: JsonValue[] = dependencies === undefined ? [] : this.#dependencies(dependencies);
    if (pattern !== undefined)
      checks.push({ format: this.#check(NAME.pattern, pattern, () => this.#pattern(pattern)) });
    const known = typeof format === 'string' ? FORMATS.get(format) : undefined;
    if (known !== undefined) checks.push({ format: this.#check(NAME.format, format, () => known) });
    if (checks.length === 0) return kept;
    return { ...kept, allOf: [...(isList(kept['allOf']) ? kept['allOf'] : []), ...checks] };
  }

  /** Draft 7 has names and schemas in one map; later drafts have two. */
  #dependencies(dependencies: JsonValue): JsonValue[] {
    const isKnown = (each: JsonValue): boolean => Array.isArray(each) || isMap(each) || typeof each === 'boolean';
    if (!isMap(dependencies) || !Object.values(dependencies).every(isKnown))
      throw new SchemaUnusable('has dependencies that are no map of names and schemas');
    const [names, schemas] = [true, false].map((areNames) =>
      Object.fromEntries(Object.entries(dependencies).filter(([, each]) => Array.isArray(each) === areNames)),
    );
    return [this.#rewritten({ dependentRequired: names ?? {} }), this.#rewritten({ dependentSchemas: schemas ?? {} })];
  }

  #check(kind: string, text: JsonValue | undefined, make: () => Check): string {
    const name = `${kind}${typeof text === 'string' ? text : ''}`;
    this.#checks.set(name, this.#checks.get(name) ?? make());
    return name;
  }

  #pattern(pattern: JsonValue): Check {
    if (typeof pattern !== 'string') throw new SchemaUnusable('has a pattern that is no text');
    if (pattern.length > LONGEST_SCHEMA_PATTERN)
      throw new SchemaUnusable(`has a pattern of ${pattern.length} characters; ${LONGEST_SCHEMA_PATTERN} are checked`);
    const same = re2Of(pattern);
    if (same === undefined) throw new SchemaUnusable('has a pattern that ECMAScript and RE2 read in two ways');
    try {
      return new Re2Pattern(same);
    } catch {
      throw new SchemaUnusable('has a pattern that is not RE2');
    }
  }

  /** Replaces patterns of names by the names that they match, each as a literal. */
  #named(schema: JsonValue, keys: ReadonlySet<string>, areNames = false): JsonValue {
    if (isList(schema)) return schema.map((item) => this.#named(item, keys));
    if (!isMap(schema)) return schema;
    const inner = mapped(schema, (value, key) =>
      !areNames && DATA.includes(key) ? value : this.#named(value, keys, !areNames && NAMED.includes(key)),
    );
    const patterns = areNames ? undefined : inner['patternProperties'];
    if (!isMap(patterns)) return inner;
    const literal = [...keys].flatMap((key): [string, JsonValue][] => {
      const schemas = Object.entries(patterns).flatMap(([name, each]) =>
        this.#names.get(name)?.isIn(key) === true ? [each] : [],
      );
      return schemas.length === 0 ? [] : [[`^${key.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}$`, { allOf: schemas }]];
    });
    const patternProperties = Object.fromEntries(literal);
    this.#literal.add(patternProperties);
    return { ...inner, patternProperties };
  }
}

/** Keywords whose value is data, into which the validator resolves no reference. */
const DATA = ['const', 'enum', 'default', 'dependentRequired'];
/** Keywords whose value maps names to schemas. */
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'];

const VOCABULARY = /^https:\/\/json-schema\.org\/draft\/20(19-09|20-12)\/vocab\/[a-z-]+$/;

/** Refuses what the validator would pass over. */
function refuseUnknown({ $dynamicRef, $recursiveRef, $vocabulary }: JsonObject): void {
  if ($dynamicRef !== undefined) throw new SchemaUnusable('has a $dynamicRef');
  if ($recursiveRef !== undefined && $recursiveRef !== '#')
    throw new SchemaUnusable('has a $recursiveRef that is not #');
  if ($vocabulary === undefined) return;
  if (!isMap($vocabulary) || !Object.keys($vocabulary).every((name) => VOCABULARY.test(name)))
    throw new SchemaUnusable('has a $vocabulary that is not known');
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function isMap(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mapped(value: JsonObject, map: (inner: JsonValue, key: string) => JsonValue): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, map(inner, key)]));
}

function keysOf(value: JsonValue, into = new Set<string>()): ReadonlySet<string> {
  if (isList(value)) for (const item of value) keysOf(item, into);
  else if (isMap(value))
    for (const [key, inner] of Object.entries(value)) {
      into.add(key);
      keysOf(inner, into);
    }
  return into;
}

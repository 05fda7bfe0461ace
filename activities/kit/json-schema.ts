/**
 * Applies JSON Schemas of servers to values.
 *
 * 1. A schema is a server's text: who applies it bounds the time (`time-limit.ts`), since references may double the
 *    work at each level, and a pattern may take for ever.
 * 2. A schema that cannot be used is told apart from one that a value fits: callers fail closed (INV-G4). A keyword that
 *    the validator would pass over, and that constrains values, makes a schema unusable.
 */
import { format as formats, type Schema, type SchemaDraft, Validator } from '@cfworker/json-schema';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';

/** UTF-8 bytes of a schema as canonical JSON. */
export const MOST_SCHEMA_BYTES = 65_536;
/** Measured: a schema as objects takes 3 bytes for each of its JSON; small objects take more. */
const BYTES_PER_CHARACTER = 10;
const MOST_ERRORS = 5;
const ERROR_CHARACTERS = 300;

// JSON Schema has no such format, and the validator's refuses addresses of private networks.
delete formats['url'];

/** Why a schema cannot be used; continues "its schema". */
export class SchemaUnusable extends Error {
  override readonly name = 'SchemaUnusable';
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

export class ServerSchema {
  /** About what it takes at most. */
  readonly bytes: number;
  readonly #validator: Validator;

  /** @throws SchemaUnusable */
  constructor(schema: JsonObject) {
    const bytes = byteLength(canonicalJson(schema));
    if (bytes > MOST_SCHEMA_BYTES) throw new SchemaUnusable(`has ${bytes} bytes; ${MOST_SCHEMA_BYTES} are checked`);
    const draft = draftOf(schema);
    for (const [each] of schemasIn(schema)) refuseUnknown(each);
    // A copy, since the validator writes into it. Sound: it takes any JSON object, and throws on an invalid schema.
    this.#validator = new Validator(structuredClone(schema) as Schema, draft, false);
    this.bytes = bytes * BYTES_PER_CHARACTER;
  }

  /**
   * Returns problems as `path: reason`, bounded, the innermost last; empty if the value fits.
   * @throws SchemaUnusable if the schema refers to nowhere, or has a broken pattern
   */
  problems(value: unknown): readonly string[] {
    try {
      const { valid, errors } = this.#validator.validate(value);
      const last = valid ? [] : errors.slice(-MOST_ERRORS);
      return last.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, ERROR_CHARACTERS));
    } catch (error) {
      throw new SchemaUnusable(`cannot be applied (${error instanceof Error ? error.name : 'error'})`);
    }
  }
}

/** Returns the draft that the schema names, 2020-12 if it names none (MCP). @throws SchemaUnusable for another dialect */
function draftOf({ $schema }: JsonObject): SchemaDraft {
  if ($schema === undefined) return '2020-12';
  const draft = typeof $schema === 'string' ? DIALECTS.get($schema) : undefined;
  if (draft === undefined) throw new SchemaUnusable('is of a dialect that is not known');
  return draft;
}

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

/** Keywords whose value is data, not a schema. */
const DATA = new Set(['const', 'enum', 'default', 'examples', 'dependentRequired']);
/** Keywords whose value maps names to schemas. */
const NAMED = new Set(['properties', 'patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions']);

/** Where a schema stands: the whole, at the end of a chain of `properties` alone, or anywhere else. */
export type SchemaPlace = 'root' | 'property' | 'elsewhere';

/** Gives a schema, and each that stands within it. A property may bear the name of a keyword. */
export function* schemasIn(
  schema: JsonValue | undefined,
  place: SchemaPlace = 'root',
): Generator<readonly [JsonObject, SchemaPlace]> {
  if (isList(schema)) for (const each of schema) yield* schemasIn(each, 'elsewhere');
  if (!isMap(schema)) return;
  yield [schema, place];
  for (const [keyword, value] of Object.entries(schema)) {
    if (DATA.has(keyword)) continue;
    const isChained = keyword === 'properties' && place !== 'elsewhere';
    if (!NAMED.has(keyword)) yield* schemasIn(value, 'elsewhere');
    else if (isMap(value))
      for (const each of Object.values(value)) yield* schemasIn(each, isChained ? 'property' : 'elsewhere');
  }
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function isMap(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

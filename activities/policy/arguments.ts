/**
 * Checks arguments against the tool's pinned input schema (JSON Schema 2020-12). So the model hears of a
 * mistake before a person is asked and before the server is called.
 *
 * 1. A schema is a server's text: its regular expressions are left out, since one hostile pattern would stall a worker.
 *    The server checks them itself.
 * 2. The check is bounded in time, since references can double the work at each level. A schema that once took too long
 *    is not tried again: the calls of a turn would otherwise hold the worker's thread one after the other.
 * 3. A schema that cannot be used refuses nothing.
 */
import { type Schema, Validator } from '@cfworker/json-schema';
import { LRUCache } from 'lru-cache';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';

const MOST_KEPT = 500;
const MOST_ERRORS = 5;
const CHECK_MS = 200;

export class ArgumentChecker {
  /** `false` marks a schema that cannot be used. */
  readonly #kept = new LRUCache<string, Validator | false>({ max: MOST_KEPT });

  /** Returns problems as `path: reason`, bounded; empty if the arguments fit. */
  problems(definitionHash: string, schema: JsonObject, args: JsonObject): readonly string[] {
    const validator = this.#validator(definitionHash, schema);
    if (validator === false) return [];
    try {
      const { valid, errors } = within(CHECK_MS, () => validator.validate(args));
      return valid
        ? []
        : errors
            .slice(-MOST_ERRORS)
            .map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`.slice(0, 300));
    } catch (error) {
      if (error instanceof OutOfTime) this.#kept.set(definitionHash, false);
      // An unresolvable $ref fails only now.
      return [];
    }
  }

  #validator(hash: string, schema: JsonObject): Validator | false {
    const known = this.#kept.get(hash);
    if (known !== undefined) return known;
    let validator: Validator | false;
    try {
      // Sound: cfworker takes any JSON object and throws on an invalid schema.
      validator = within(CHECK_MS, () => new Validator(withoutPatterns(schema) as Schema, '2020-12', false));
    } catch {
      validator = false;
    }
    this.#kept.set(hash, validator);
    return validator;
  }
}

/** Drops `pattern`, `patternProperties` and `format` where they are keywords; a property may bear these names. */
function withoutPatterns(schema: JsonValue, isProperties = false): JsonValue {
  if (Array.isArray(schema)) return schema.map((item: JsonValue) => withoutPatterns(item));
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(
    ([key]) => isProperties || !['pattern', 'patternProperties', 'format'].includes(key),
  );
  // Without the patterns, the properties they allowed cannot be told from those they forbade.
  const hadPatterns = !isProperties && 'patternProperties' in schema;
  return Object.fromEntries(
    kept
      .filter(([key]) => !(hadPatterns && (key === 'additionalProperties' || key === 'unevaluatedProperties')))
      .map(([key, value]) => [
        key,
        key === 'const' || key === 'enum' || key === 'default'
          ? value
          : withoutPatterns(
              value,
              !isProperties && ['properties', '$defs', 'definitions', 'dependentSchemas'].includes(key),
            ),
      ]),
  );
}

/** Reads and makes plain JSON values, and bounds those of servers. */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';

/** Returns a copy without the parts that JSON cannot hold, such as undefined fields. */
export function jsonOf(value: unknown): JsonValue {
  // Sound: JSON.parse returns a JSON value.
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/** Undefined for what is no JSON. */
export function parsedJson(text: string): JsonValue | undefined {
  try {
    // Sound: JSON.parse returns a JSON value.
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Reads a value as an object; anything else has no fields. */
export function fieldsOf(value: JsonValue | undefined): JsonObject;
export function fieldsOf(value: unknown): Fields;
export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {};
}

/** @param value as parsed from JSON */
export function isJsonObject(value: unknown): value is JsonObject {
  return isFields(value);
}

export function objectsOf(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.map((item: JsonValue) => fieldsOf(item)) : [];
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/**
 * Deepest nesting allowed in a JSON value of a server. Recursive code, such as canonical JSON in a workflow, would
 * overflow the stack on a deeper value, and a run could not go on.
 */
export const MAX_NESTING = 100;

/** Looks no deeper than the limit itself. */
export function nestsTooDeeply(value: unknown, levelsLeft = MAX_NESTING): boolean {
  if (value === null || typeof value !== 'object') return false;
  return levelsLeft === 0 || Object.values(value).some((inner) => nestsTooDeeply(inner, levelsLeft - 1));
}

/**
 * Numbers of a server that JSON can write and this service cannot keep. `1e999` is read as infinity, which has no
 * canonical form (RFC 8785 §3.2.2.3) and so no hash, and is written as null.
 */
export const ENDLESS_NUMBER = 'a number beyond what can be kept (1e999, for instance)';

/** @param value nests no deeper than `MAX_NESTING` */
export function holdsEndlessNumber(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsEndlessNumber);
}

/** Said of a value in which `holdsLargeNumber`. */
export const LARGE_NUMBER =
  'a whole number beyond 9007199254740992, which may have been rounded; what the tool says in text is exact';

/**
 * True if a number may be another one than was written: it is beyond those that are read exactly, such as ids of 64
 * bits.
 * @param value nests no deeper than `MAX_NESTING`
 */
export function holdsLargeNumber(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsLargeNumber);
}

/** Reads an own field only: a server or a tool may be called `constructor`. */
export function ownValue<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

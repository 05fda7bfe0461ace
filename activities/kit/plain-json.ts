/** Values as JSON has them. */
import type { JsonValue } from '../../contracts/schemas/json.ts';

/** A copy without what JSON cannot say (undefined fields). */
export function jsonOf(value: unknown): JsonValue {
  // Sound: what JSON.parse returns is a JSON value.
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/** Turns values into plain JSON values. */
import type { JsonValue } from '../../contracts/schemas/json.ts';

/** Returns a copy without the parts that JSON cannot hold, such as undefined fields. */
export function jsonOf(value: unknown): JsonValue {
  // Sound: JSON.parse returns a JSON value.
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

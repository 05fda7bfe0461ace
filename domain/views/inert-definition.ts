/**
 * Makes the words of a tool's definition harmless: they are data of its server.
 *
 * 1. A model reads no character that a person could not see. Only `description` and `title` are changed, at any depth.
 */
import type { JsonValue } from '../../contracts/schemas/json.ts';
import { visible } from '../text/escape.ts';

export function inertText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[^\n\t]+/g, visible);
}

const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default']);

/** The value nests no deeper than discovery accepts (`activities/kit/json.ts`), so recursion is safe. */
export function inertSchema(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(inertSchema);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if ((key === 'description' || key === 'title') && typeof inner === 'string') return [key, inertText(inner)];
      return [key, VALUES.has(key) ? inner : inertSchema(inner)];
    }),
  );
}

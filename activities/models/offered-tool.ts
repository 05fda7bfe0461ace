/**
 * A pinned tool as a model is offered it.
 *
 * 1. What its server says of it is data: what a person could not see when they read it, no model reads either. Characters that show
 *    nothing, or turn text around, stand as `\u{…}`; lines and tabs stay.
 * 2. Only words are touched, `description` and `title` at any depth. What arguments may be stays as the server said it: names of
 *    properties and the values of `enum`, `const` and `default`.
 */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { visible } from '../../domain/escape.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import type { ModelTool } from './port.ts';

/** A toolset is kept for as long as it is in use, and offered anew with every step. */
const made = new WeakMap<OfferedTool, ModelTool>();

export function modelTool(tool: OfferedTool): ModelTool {
  const known = made.get(tool);
  if (known !== undefined) return known;
  const { modelName, server, definition } = tool;
  const description = definition.description ?? definition.title;
  const offered = {
    name: modelName,
    qualifiedName: `${server}/${definition.name}`,
    ...(description === undefined ? {} : { description: words(description) }),
    // Sound: an object stays an object.
    inputSchema: inert(definition.inputSchema) as JsonObject,
  };
  made.set(tool, offered);
  return offered;
}

function words(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[^\n\t]+/g, visible);
}

const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default']);

/** Nests no deeper than what discovery takes (`nesting.ts`). */
function inert(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(inert);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if ((key === 'description' || key === 'title') && typeof inner === 'string') return [key, words(inner)];
      return [key, VALUES.has(key) ? inner : inert(inner)];
    }),
  );
}

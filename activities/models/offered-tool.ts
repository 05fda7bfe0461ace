/**
 * Makes what a model is told of a tool.
 *
 * 1. A server's description of its tool is data: a model reads no character that a person could not see. Only
 *    `description` and `title` are changed, at any depth; property names and values say which arguments are valid.
 */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { visible } from '../../domain/text/escape.ts';
import type { ModelTool } from './port.ts';

/** A toolset stays in memory while it is in use, and is offered anew with every step. */
const made = new WeakMap<OfferedTool, ModelTool>();

export function modelTool(pinned: OfferedTool): ModelTool {
  const known = made.get(pinned);
  if (known !== undefined) return known;
  const { modelName, server, definition } = pinned;
  const description = definition.description ?? definition.title;
  const offered = {
    name: modelName,
    qualifiedName: `${server}/${definition.name}`,
    ...(description === undefined ? {} : { description: words(description) }),
    // Sound: an object stays an object.
    inputSchema: inert(definition.inputSchema) as JsonObject,
  };
  made.set(pinned, offered);
  return offered;
}

function words(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[^\n\t]+/g, visible);
}

const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default']);

/** The value nests no deeper than discovery accepts (`activities/kit/json.ts`), so recursion is safe. */
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

/**
 * Assistant messages in the shape that OpenAI publishes for them (OpenAPI, `OutputMessage` and `EasyInputMessage`). The
 * provider package leaves out required fields; OpenAI is lenient, servers that speak the same protocol need not be.
 */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';

/** @param body JSON of a Responses request as the provider package writes it. */
export function toPublishedShape(body: string): string {
  // Sound: the provider package wrote it, and its `input` is a list of items.
  const request = JSON.parse(body) as { readonly input: readonly JsonObject[] };
  return JSON.stringify({ ...request, input: request.input.map(publishedItem) });
}

function publishedItem(item: JsonObject): JsonObject {
  const { role, id, content, ...rest } = item;
  if (role !== 'assistant' || !isList(content)) return item;
  if (id === undefined) return { type: 'message', role, content: content.map(textOf).join(''), ...rest };
  const parts = content.map((part) => ({ annotations: [], logprobs: [], ...fieldsOf(part) }));
  return { type: 'message', id, role, status: 'completed', content: parts, ...rest };
}

function textOf(part: JsonValue): string {
  const { text } = fieldsOf(part);
  return typeof text === 'string' ? text : '';
}

/** `Array.isArray` alone does not narrow a readonly array. */
function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function fieldsOf(value: JsonValue): JsonObject {
  return value !== null && typeof value === 'object' && !isList(value) ? value : {};
}

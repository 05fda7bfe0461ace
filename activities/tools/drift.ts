/**
 * What became of a definition since it was shown, in one bounded line for whoever is asked again.
 *
 * 1. Words of the server are quoted as JSON and cut; whoever shows the line escapes it like any text of a server.
 */
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { definitionDiff } from '../../domain/definition-diff.ts';
import { bounded } from '../../domain/escape.ts';

const MOST_FIELDS = 5;
const VALUE_CHARACTERS = 120;

/** @param before as it was shown; absent where that is not known */
export function describeDrift(before: ToolDefinition | undefined, now: ToolDefinition): string {
  const changed = 'The definition of the tool is not the one that was shown';
  if (before === undefined) return `${changed}.`;
  const fields = definitionDiff(before, now);
  const told = fields.slice(0, MOST_FIELDS).map(({ path, before: was, after: is }) => {
    const name = bounded(path, VALUE_CHARACTERS);
    if (was === undefined) return `${name} is new: ${quoted(is)}`;
    return is === undefined ? `${name} is gone, was ${quoted(was)}` : `${name} was ${quoted(was)}, is ${quoted(is)}`;
  });
  const more = fields.length > told.length ? [`and ${fields.length - told.length} more fields`] : [];
  return `${changed}: ${[...told, ...more].join('; ')}.`;
}

function quoted(value: JsonValue | undefined): string {
  return bounded(canonicalJson(value ?? null), VALUE_CHARACTERS);
}

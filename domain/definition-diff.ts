/** Two definitions of a tool, field by field: what a person reads before they acknowledge the newer. */
import type { JsonValue } from '../contracts/schemas/json.ts';
import type { ToolDefinition } from '../contracts/schemas/tool.ts';
import { canonicalJson } from './canonical.ts';

export interface FieldDifference {
  /** As people write it: `inputSchema.properties.path.type`. */
  readonly path: string;
  /** Absent where the field is new. */
  readonly before?: JsonValue;
  /** Absent where the field is gone. */
  readonly after?: JsonValue;
}

/** @param before absent where no definition was acknowledged: all is new then */
export function definitionDiff(before: ToolDefinition | undefined, after: ToolDefinition): readonly FieldDifference[] {
  // Sound: a definition comes from JSON.
  return differences(before as JsonValue | undefined, after as JsonValue, '');
}

function differences(before: JsonValue | undefined, after: JsonValue | undefined, path: string): FieldDifference[] {
  const atTop = path === '';
  const [was, is] = [fieldsOf(before) ?? (atTop ? {} : undefined), fieldsOf(after)];
  if (was !== undefined && is !== undefined) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].toSorted();
    return names.flatMap((name) =>
      differences(own(was, name), own(is, name), atTop ? shown(name) : `${path}.${shown(name)}`),
    );
  }
  if (
    before === undefined ? after === undefined : after !== undefined && canonicalJson(before) === canonicalJson(after)
  )
    return [];
  return [{ path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) }];
}

function shown(name: string): string {
  return /^[\w$-]+$/.test(name) ? name : JSON.stringify(name);
}

function fieldsOf(value: JsonValue | undefined): Readonly<Record<string, JsonValue>> | undefined {
  // Sound: what is an object and no list has fields.
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? (value as Readonly<Record<string, JsonValue>>)
    : undefined;
}

/** A field may be called `constructor`. */
function own(fields: Readonly<Record<string, JsonValue>>, name: string): JsonValue | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

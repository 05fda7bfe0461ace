/**
 * Whether a tool's `x-mcp-header` declarations are legal. A client MUST leave out a tool whose declarations are not (MCP
 * 2026-07-28, Streamable HTTP "Schema Extension"; SEP-2243): its calls could not carry the headers that the server asks for.
 *
 * The SDK applies the rule only inside its own `listTools`, which fails as a whole on one malformed tool.
 */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';

const KEY = 'x-mcp-header';
/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const PRIMITIVES: readonly JsonValue[] = ['string', 'integer', 'boolean'];

/** Keywords whose value is data, not a schema. */
const DATA = new Set(['default', 'const', 'enum', 'examples']);
/** Keywords whose value maps names to schemas. */
const NAMED = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions']);

/** What is wrong, or undefined. */
export function paramHeaderFault(inputSchema: JsonObject): string | undefined {
  const seen = new Set<string>();

  const faultOf = (declared: JsonValue, type: JsonValue | undefined): string | undefined => {
    if (typeof declared !== 'string' || !TOKEN.test(declared)) return `${KEY} is no HTTP token`;
    if (type === undefined || !PRIMITIVES.includes(type))
      return `${KEY} "${declared}" is not on a string, integer or boolean`;
    const name = declared.toLowerCase();
    if (seen.has(name)) return `${KEY} "${declared}" is declared twice`;
    seen.add(name);
    return undefined;
  };

  /** `reachable`: by a chain of `properties` alone, below the root. */
  const visit = (node: JsonValue | undefined, reachable: boolean): string | undefined => {
    if (Array.isArray(node)) return first(node, (item: JsonValue) => visit(item, false));
    if (!isObject(node)) return undefined;
    const declared = node[KEY];
    if (declared !== undefined) {
      const fault = reachable ? faultOf(declared, node['type']) : `${KEY} stands where no chain of properties leads`;
      if (fault !== undefined) return fault;
    }
    const chained = node === inputSchema || reachable;
    return first(Object.entries(node), ([keyword, below]) => {
      if (DATA.has(keyword)) return undefined;
      if (!NAMED.has(keyword)) return visit(below, false);
      return isObject(below)
        ? first(Object.values(below), (named) => visit(named, chained && keyword === 'properties'))
        : undefined;
    });
  };

  return visit(inputSchema, false);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function first<Item>(items: readonly Item[], faultOf: (item: Item) => string | undefined): string | undefined {
  for (const item of items) {
    const fault = faultOf(item);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

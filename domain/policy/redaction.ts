/** Keeps the arguments that policy names out of summaries and lasting records. Digest and hashes still cover them. */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Redaction } from '../../contracts/schemas/policy.ts';

export const REDACTED = '[redacted]';

export function redactionsOf(
  redactions: readonly Redaction[],
  { server, tool }: { readonly server: string; readonly tool: string },
): readonly string[] {
  const applying = redactions.filter((each) => (each.server ?? server) === server && (each.tool ?? tool) === tool);
  return [...new Set(applying.flatMap((each) => each.arguments))];
}

/** A copy with the places replaced: top-level names, or JSON pointers (RFC 6901); a part `*` is every member. */
export function withoutRedacted(values: JsonObject, places: readonly string[] = []): JsonObject {
  let shown: JsonValue = values;
  for (const place of places) shown = replaced(shown, partsOf(place));
  // Sound: a place has at least one part, so an object stays an object.
  return shown as JsonObject;
}

/** Returns the arguments for summaries and lists; an approver must see `arguments` themselves. */
export function shownArguments(request: {
  readonly arguments: JsonObject;
  readonly redact?: readonly string[] | undefined;
}): JsonObject {
  return withoutRedacted(request.arguments, request.redact);
}

function partsOf(place: string): readonly string[] {
  if (!place.startsWith('/')) return [place];
  return place
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function replaced(value: JsonValue, [part, ...rest]: readonly string[]): JsonValue {
  if (part === undefined) return REDACTED;
  if (typeof value !== 'object' || value === null) return value;
  const isWanted = (name: string): boolean => part === '*' || part === name;
  if (Array.isArray(value))
    return value.map((inner: JsonValue, index) => (isWanted(String(index)) ? replaced(inner, rest) : inner));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, isWanted(name) ? replaced(inner, rest) : inner]),
  );
}

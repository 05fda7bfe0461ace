/**
 * Reads JSON that people write. Nothing is changed on the way: what a value cannot keep as it was written is refused.
 * `JSON.parse` alone rounds numbers and keeps the last of two fields with one name.
 */
import type { JsonValue } from '../../../contracts/schemas/json.ts';
import { isKept } from '../../../domain/text/written-json.ts';

export type WrittenJson = { readonly value: JsonValue } | { readonly reason: string };

/** Levels of nesting that a run takes. */
const MOST_LEVELS = 100;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*|[{}[\]:]/g;

export function writtenJson(text: string): WrittenJson {
  let value: JsonValue;
  try {
    // Sound: `JSON.parse` makes nothing but JSON values.
    value = JSON.parse(text) as JsonValue;
  } catch (error) {
    return { reason: `must be JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  const reason = lossIn(text);
  return reason === undefined ? { value } : { reason };
}

/** Reads a number as browsers send it, and as people write it: `.5` and `007` are no JSON. */
export function writtenNumber(text: string): { readonly value: number } | { readonly reason: string } {
  const written = text.trim();
  const value = Number(written);
  // No digits may be read by two parts of it: that takes time by their square.
  if (!/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(written) || !Number.isFinite(value))
    return { reason: 'must be a number' };
  return isKept(written) ? { value } : { reason: 'has more digits than can be kept exactly' };
}

/** @param text is JSON */
function lossIn(text: string): string | undefined {
  const open: Set<string>[] = [];
  let last = '';
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') {
      if (open.push(new Set()) > MOST_LEVELS) return `must have at most ${MOST_LEVELS} levels`;
    } else if (token === '}' || token === ']') open.pop();
    else if (token === ':') {
      const name = String(JSON.parse(last));
      if (name === '__proto__') return 'must have no field called __proto__';
      if (open.at(-1)?.has(name) === true) return `has two fields called ${last}`;
      open.at(-1)?.add(name);
    } else if (token.startsWith('"')) last = token;
    else if (!isKept(token)) return `holds ${token.slice(0, 40)}, which cannot be kept exactly`;
  }
  return undefined;
}

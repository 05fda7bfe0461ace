/**
 * An MCP tool result as this service keeps it (MCP 2026-07-28, server/tools "Tool Result").
 *
 * Owns scrubbing, size, warnings. Does not own kinds of content (`content.ts`), nor whether the call succeeded.
 *
 * 1. The tool has run: nothing that is wrong with its result, or with storing it, throws. What cannot be kept is a warning.
 * 2. Everything is scrubbed before it is measured, cut or stored (INV-S1).
 * 3. Storing is bounded in time: a store that hangs loses bytes, never the fact that the tool ran.
 * 4. Binary goes to the artifact store. So does the whole result where its JSON is above `maxBytes`; `content` is then a preview.
 */
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength } from '../../domain/canonical.ts';
import { type ContentRules, contentOf, stored, textsOf } from './content.ts';
import { MAX_NESTING, nestsTooDeeply } from './nesting.ts';
import { outputViolation } from './output-schema.ts';
import { previewOf } from './preview.ts';
import { inTime, STORING_MS } from './storing-time.ts';

export interface ResultRules extends ContentRules {
  readonly maxBytes: number;
  /** Calls that share the turn's room, where `maxBytes` is a share of it. */
  readonly sharedBy?: number;
  readonly outputSchema?: JsonObject;
  /** For all that is stored of one result. */
  readonly storingMs?: number;
}

const MAX_WARNINGS = 20;
const MAX_WARNING_CHARACTERS = 300;

export async function toolResultOf(raw: Readonly<Record<string, unknown>>, rules: ResultRules): Promise<ToolResult> {
  const warnings: string[] = [];
  try {
    const artifacts = inTime(rules.artifacts, rules.storingMs ?? STORING_MS);
    return await mapped(raw, { ...rules, artifacts }, warnings);
  } catch {
    return {
      content: [{ type: 'text', text: '[The tool has run; its result could not be read.]' }],
      ...warned([...warnings, 'the result could not be read']),
    };
  }
}

async function mapped(
  raw: Readonly<Record<string, unknown>>,
  rules: ResultRules,
  warnings: string[],
): Promise<ToolResult> {
  const { scrub } = rules;
  const warn = (warning: string): void => {
    warnings.push(scrub.text(warning).slice(0, MAX_WARNING_CHARACTERS));
  };
  const tooDeep = nestsTooDeeply(raw['structuredContent']);
  if (tooDeep) warn(`the structured result nests deeper than ${MAX_NESTING} levels and was dropped`);
  const given = tooDeep ? undefined : raw['structuredContent'];
  if (rules.outputSchema !== undefined && raw['isError'] !== true && !tooDeep) {
    const violation = outputViolation(rules.outputSchema, given);
    if (violation !== undefined) warn(violation);
  }
  // Together, since a secret may begin in one and go on in another. Sound: scrubbing gives a string for a string, and keeps the shape.
  const [texts, clean] = scrub.value([textsOf(raw['content']), given]) as [ReturnType<typeof textsOf>, JsonValue];
  const content = await contentOf(raw['content'], texts, rules, warn);
  const structured = given === undefined ? {} : { structured: clean };
  const json = JSON.stringify({ content, ...structured });
  const bytes = byteLength(json);
  if (bytes <= rules.maxBytes) return { content, ...structured, ...warned(warnings) };
  const full = await stored(Buffer.from(json, 'utf8'), 'application/json', rules, warn);
  const reference = full === undefined ? {} : { full };
  const shared = rules.sharedBy === undefined ? {} : { sharedBy: rules.sharedBy };
  return {
    content: previewOf({ content, ...structured, bytes, ...reference, ...shared }, rules.maxBytes),
    ...reference,
    ...warned(warnings),
  };
}

function warned(warnings: readonly string[]): Pick<ToolResult, 'warnings'> {
  if (warnings.length === 0) return {};
  const left = warnings.length - MAX_WARNINGS;
  return { warnings: left > 0 ? [...warnings.slice(0, MAX_WARNINGS), `and ${left} more`] : [...warnings] };
}

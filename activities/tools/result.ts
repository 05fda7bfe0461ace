/**
 * An MCP tool result as this service keeps it (MCP 2026-07-28, server/tools "Tool Result").
 *
 * Owns kinds of content, scrubbing, binary, size. Does not own whether the call succeeded.
 *
 * 1. The tool has run: nothing that is wrong with its result, or with storing it, throws. What cannot be kept is a warning.
 * 2. Everything is scrubbed before it is measured, cut or stored (INV-S1).
 * 3. Binary goes to the artifact store. So does the whole result where its JSON is above `maxBytes`; `content` is then a preview.
 */
import type { ResultPart, ToolResult } from '../../contracts/schemas/call.ts';
import type { ArtifactRef, JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength } from '../../domain/canonical.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { MAX_NESTING, nestsTooDeeply } from './nesting.ts';
import { outputViolation } from './output-schema.ts';
import { previewOf } from './preview.ts';
import type { Scrubber } from './scrub.ts';

export interface ResultRules {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  readonly maxBytes: number;
  readonly outputSchema?: JsonObject;
}

const MAX_WARNINGS = 20;
const MAX_WARNING_CHARACTERS = 300;
const MAX_LABEL_CHARACTERS = 200;

/** A part as the server sent it: nothing is known of any field. */
type RawPart = Readonly<Record<string, unknown>>;

export async function toolResultOf(raw: Readonly<Record<string, unknown>>, rules: ResultRules): Promise<ToolResult> {
  const warnings: string[] = [];
  try {
    return await mapped(raw, rules, warnings);
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
  const content: ResultPart[] = [];
  if (!Array.isArray(raw['content'])) warn('the result has no list of content');
  else {
    // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is looked at.
    for (const part of raw['content'] as readonly unknown[]) {
      const kept = await partOf(part, rules, warn);
      if (kept !== undefined) content.push(kept);
    }
  }
  const tooDeep = nestsTooDeeply(raw['structuredContent']);
  if (tooDeep) warn(`the structured result nests deeper than ${MAX_NESTING} levels and was dropped`);
  const given = tooDeep ? undefined : raw['structuredContent'];
  if (rules.outputSchema !== undefined && raw['isError'] !== true && !tooDeep) {
    const violation = outputViolation(rules.outputSchema, given);
    if (violation !== undefined) warn(violation);
  }
  // Sound: it was parsed from JSON, and scrubbing gives a string for a string.
  const structured = given === undefined ? {} : { structured: scrub.value(given) as JsonValue };
  const json = JSON.stringify({ content, ...structured });
  const bytes = byteLength(json);
  if (bytes <= rules.maxBytes) return { content, ...structured, ...warned(warnings) };
  const full = await stored(Buffer.from(json, 'utf8'), 'application/json', rules, warn);
  const reference = full === undefined ? {} : { full };
  return {
    content: previewOf({ content, ...structured, bytes, ...reference }, rules.maxBytes),
    ...reference,
    ...warned(warnings),
  };
}

/** The part as it is kept; undefined where it is of no known kind. */
async function partOf(
  part: unknown,
  rules: ResultRules,
  warn: (warning: string) => void,
): Promise<ResultPart | undefined> {
  const text = (value: string): string => rules.scrub.text(value);
  // Sound: any object may be read as a record of unknown values.
  const fields: RawPart = typeof part === 'object' && part !== null ? (part as RawPart) : {};
  const { type, data, uri, name, description, resource } = fields;
  const mimeType = labelOf(fields['mimeType'], text);
  if (type === 'text' && typeof fields['text'] === 'string') return { type, text: text(fields['text']) };
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    const kind = mimeType ?? 'application/octet-stream';
    const artifact = await stored(rules.scrub.bytes(Buffer.from(data, 'base64')), kind, rules, warn);
    return artifact === undefined ? { type: 'text', text: `[${type} not kept]` } : { type, mimeType: kind, artifact };
  }
  if (type === 'resource_link' && typeof uri === 'string') {
    return {
      type,
      uri: text(uri),
      name: typeof name === 'string' ? text(name) : text(uri),
      ...(mimeType === undefined ? {} : { mimeType }),
      ...(typeof description === 'string' ? { description: text(description) } : {}),
    };
  }
  if (type === 'resource' && typeof resource === 'object' && resource !== null) {
    // Sound: as above.
    const kept = await resourceOf(resource as RawPart, rules, text, warn);
    if (kept !== undefined) return kept;
  }
  // Scrubbed before it is cut: half a secret is not found.
  warn(`content of kind "${labelOf(type, text) ?? typeof type}" was dropped: not of a known kind, or malformed`);
  return undefined;
}

async function resourceOf(
  resource: RawPart,
  rules: ResultRules,
  text: (value: string) => string,
  warn: (warning: string) => void,
): Promise<ResultPart | undefined> {
  if (typeof resource['uri'] !== 'string') return undefined;
  const mimeType = labelOf(resource['mimeType'], text);
  const head = {
    type: 'resource' as const,
    uri: text(resource['uri']),
    ...(mimeType === undefined ? {} : { mimeType }),
  };
  if (typeof resource['text'] === 'string') return { ...head, text: text(resource['text']) };
  if (typeof resource['blob'] !== 'string') return undefined;
  const artifact = await stored(
    rules.scrub.bytes(Buffer.from(resource['blob'], 'base64')),
    mimeType ?? 'application/octet-stream',
    rules,
    warn,
  );
  return artifact === undefined ? { ...head, text: '[not kept]' } : { ...head, artifact };
}

async function stored(
  bytes: Uint8Array,
  contentType: string,
  { artifacts }: ResultRules,
  warn: (warning: string) => void,
): Promise<ArtifactRef | undefined> {
  try {
    return await artifacts.put(bytes, contentType);
  } catch {
    // A full disk must not turn a call that ran into one of unknown outcome.
    warn(`${bytes.length} bytes of ${contentType} could not be stored and are lost`);
    return undefined;
  }
}

function labelOf(value: unknown, text: (value: string) => string): string | undefined {
  return typeof value === 'string' && value !== '' ? text(value).slice(0, MAX_LABEL_CHARACTERS) : undefined;
}

function warned(warnings: readonly string[]): Pick<ToolResult, 'warnings'> {
  if (warnings.length === 0) return {};
  const left = warnings.length - MAX_WARNINGS;
  return { warnings: left > 0 ? [...warnings.slice(0, MAX_WARNINGS), `and ${left} more`] : [...warnings] };
}

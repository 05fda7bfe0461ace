/**
 * Interprets the answer to a `tools/call` and keeps the tool's result (MCP 2026-07-28, server/tools "Tool Result").
 *
 * It serves the worker that sent the call, one that asks later, and the end of a task. It owns scrubbing, size and
 * warnings, and whether the tool ran. It does not own kinds of content (`content.ts`), nor calls that got no answer
 * (`classify-failure.ts`).
 * 1. A call that ran is reported as executed, whatever its result looks like.
 * 2. The tool has run, so no fault of its result, or of storing it, throws. A part that cannot be kept becomes a
 *    warning.
 * 3. Everything is scrubbed before it is measured, cut or stored (INV-S1).
 * 4. Storing is bounded in time: a store that hangs loses bytes, never the fact that the tool ran.
 * 5. Binary goes to the artifact store. So does the whole result if its JSON is above `maxBytes`; `content` is then a
 *    preview.
 * 6. A result that violates its output schema gives a warning: throwing it away would lose a side effect
 *    (typescript-sdk#2748).
 * 7. The schema check is bounded in time. Schema and content both come from the server: a pattern like `(a+)+$`, or
 *    references that double at each level, would otherwise hold the worker's only thread.
 */
import { type SchemaDraft, Validator } from '@cfworker/json-schema';
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { inTime, STORING_MS } from '../artifacts/storing-time.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/nesting.ts';
import { createScrubber, type Scrubber } from '../kit/scrubber.ts';
import { within } from '../kit/time-limit.ts';
import { endingOfError, halfway, isV1UnknownTool, type Names, vanished } from './classify-failure.ts';
import { contentOf, type ContentRules, previewOf, stored, textsOf } from './content.ts';
import { contentsAsResult, endingOfRead } from './linked-resource.ts';
import type { CallEnding, ServerConnection, ToolCall } from './port.ts';
import type { RawAnswer } from './transport.ts';

const MAX_QUOTE_CHARACTERS = 300;

export interface MeaningParts {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  readonly names: Names;
  /**
   * True if the server had asked something in the middle of the call: then no answer proves that the call did not run.
   */
  readonly asked?: boolean | undefined;
}

/** The parts of a call that its answer is checked against. */
export type Answered = Pick<ToolCall, 'resultBytes' | 'sharedBy' | 'signal' | 'noInput'> & {
  readonly definition: { readonly outputSchema?: JsonObject | undefined };
};

/** Classifies the answer to a call or to a read, a result or an error. */
export async function meaningOf(answer: RawAnswer, call: Answered, parts: MeaningParts): Promise<CallEnding> {
  const reads = parts.names.reads === true;
  if (answer.kind === 'error') {
    const { names, asked } = parts;
    return reads ? endingOfRead(answer, names, call.noInput) : endingOfError(answer, names, call.noInput, asked);
  }
  return await executed(reads ? contentsAsResult(answer.result) : answer.result, call, parts);
}

/** @param more secrets that the server gave for this call; they are scrubbed like the token */
export function scrubberFor(
  { secrets, accessToken, renewal }: ServerConnection,
  more: readonly string[] = [],
): Scrubber {
  const tokens = accessToken === undefined ? [] : [accessToken];
  return createScrubber([...secrets, ...tokens, ...(renewal?.secrets() ?? []), ...more]);
}

/** Interprets the result of a call or of a task. */
export async function executed(
  raw: Readonly<Record<string, unknown>>,
  { definition, resultBytes, sharedBy, signal, noInput }: Answered,
  { artifacts, scrub, names, asked = false }: MeaningParts,
): Promise<CallEnding> {
  const { resultType } = raw;
  // Absent before 2026-07-28.
  if (resultType !== undefined && resultType !== 'complete')
    return halfway(names, typeof resultType === 'string' ? resultType : typeof resultType, noInput);
  const { outputSchema } = definition;
  const result = await toolResultOf(raw, {
    artifacts,
    scrub,
    signal,
    maxBytes: resultBytes,
    ...(sharedBy === undefined ? {} : { sharedBy }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
  });
  // Absent means false (MCP server/tools); any other odd value is no success.
  const isError = raw['isError'] !== undefined && raw['isError'] !== false;
  const [only, ...others] = result.content;
  if (!asked && isError && others.length === 0 && only?.type === 'text' && isV1UnknownTool(only.text, names.tool))
    return vanished(names);
  return { kind: 'executed', isError, result };
}

/** The tool has run: a single answer with status 200 that exceeds what a session reads can only be a result. */
export function oversized(): CallEnding {
  const note = 'the result is larger than this service reads, and is lost';
  return {
    kind: 'executed',
    isError: false,
    result: { content: [{ type: 'text', text: `[The tool has run; ${note}.]` }], warnings: [note] },
  };
}

/** Makes words of a server fit for a message of ours: scrubbed, on one line, bounded. */
export function quoted(scrub: Scrubber, text: string): string {
  const line = scrub
    .text(text)
    .slice(0, 10 * MAX_QUOTE_CHARACTERS)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return line.length > MAX_QUOTE_CHARACTERS ? `${line.slice(0, MAX_QUOTE_CHARACTERS)}…` : line;
}

export interface ResultRules extends ContentRules {
  readonly maxBytes: number;
  /** Number of calls that share the turn's room, if `maxBytes` is a share of it. */
  readonly sharedBy?: number;
  readonly outputSchema?: JsonObject;
  /** Time for everything that is stored of one result. */
  readonly storingMs?: number;
}

const MAX_WARNINGS = 20;
const MAX_WARNING_CHARACTERS = 300;

/** Keeps a result within the rules. Never throws: the tool has run. */
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
  // They are scrubbed together, since a secret may begin in one and go on in another. Sound: scrubbing turns a string
  // into a string, and keeps the shape.
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

const CHECK_MS = 200;

/** Describes the violation by `structured`; undefined if there is none. */
export function outputViolation(outputSchema: JsonObject, structured: unknown): string | undefined {
  if (structured === undefined) return 'the tool promised a structured result and gave none';
  try {
    const { valid, errors } = within(CHECK_MS, () =>
      new Validator(outputSchema, draftOf(outputSchema)).validate(structured),
    );
    if (valid) return undefined;
    // The last error is the innermost.
    const { instanceLocation, error } = errors.at(-1) ?? { instanceLocation: '#', error: 'no reason given' };
    return `the result does not match the tool's output schema at ${instanceLocation}: ${error}`;
  } catch {
    return "the tool's output schema could not be applied";
  }
}

/**
 * The draft is 2020-12 unless the schema names another (MCP 2025-11-25, "JSON Schema Usage"); servers on older SDKs
 * name draft-07.
 */
function draftOf({ $schema }: JsonObject): SchemaDraft {
  const named = typeof $schema === 'string' ? $schema : '';
  if (named.includes('draft-04')) return '4';
  if (named.includes('draft-07') || named.includes('draft-06')) return '7';
  return named.includes('2019-09') ? '2019-09' : '2020-12';
}

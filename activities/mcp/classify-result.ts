/**
 * Interprets the answer to a `tools/call` and keeps the tool's result (MCP 2026-07-28, server/tools "Tool Result").
 *
 * It serves the worker that sent the call, one that asks later, and the end of a task. It does not own calls that got
 * no answer (`classify-failure.ts`).
 * 1. A call that ran is reported as executed: no fault of its result, or of storing it, throws. A part that cannot be
 *    kept, and a violated output schema (typescript-sdk#2748), become warnings.
 * 2. Everything is scrubbed before it is measured, cut or stored (INV-S1): texts together, binary parts one by one.
 * 3. Storing is bounded in time: a store that hangs loses bytes, never the fact that the tool ran.
 * 4. Binary goes to the artifact store. So does the whole result if its JSON is above `maxBytes`; `content` is then a
 *    preview within these bytes, whose last part says how much was cut and where the whole is.
 * 5. The number of parts is bounded: each stored part is written and synced by itself, and one answer has room for
 *    hundreds of thousands.
 * 6. The schema check is bounded in time. Schema and content both come from the server: a pattern like `(a+)+$`, or
 *    references that double at each level, would otherwise hold the worker's only thread.
 * One file, because a result is read, scrubbed, measured and kept in one order, which no part can change alone.
 */
import { defined } from '../../contracts/defined.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ResultPart, ToolResult } from '../../contracts/schemas/call.ts';
import type { ArtifactRef, JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Fields } from '../../domain/shapes/inputs.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { type ArtifactStore, inTime, STORING_MS } from '../artifacts/port.ts';
import {
  ENDLESS_NUMBER,
  fieldsOf,
  holdsEndlessNumber,
  holdsLargeNumber,
  jsonOf,
  MAX_NESTING,
  nestsTooDeeply,
  LARGE_NUMBER,
} from '../kit/json.ts';
import { ServerSchema } from '../kit/json-schema.ts';
import { within } from '../kit/time-limit.ts';
import { createScrubber, type Scrubber, scrubbedBeginning } from '../scrubbing/scrubber.ts';
import { endingOfError, halfway, isV1UnknownTool, type Names, refusedBy, vanished } from './classify-failure.ts';
import type { CallEnding, ServerConnection, ToolCall } from './port.ts';
import type { RawAnswer } from './session.ts';

const MAX_QUOTE_CHARACTERS = 300;

export interface MeaningParts {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  readonly names: Names;
  /** The server had asked something in the middle of the call: then no answer proves that it did not run. */
  readonly asked?: boolean | undefined;
}

export type Answered = Pick<ToolCall, 'resultBytes' | 'sharedBy' | 'signal' | 'noInput'> & {
  readonly definition: { readonly outputSchema?: JsonObject | undefined };
};

export async function meaningOf(answer: RawAnswer, call: Answered, parts: MeaningParts): Promise<CallEnding> {
  const reads = parts.names.reads === true;
  if (answer.kind === 'error') {
    const { names, asked } = parts;
    return reads ? endingOfRead(answer, names, call.noInput) : endingOfError(answer, names, call.noInput, asked);
  }
  return await executed(reads ? contentsAsResult(answer.result) : answer.result, call, parts);
}

/**
 * Returns a scrubber that knows the proofs which leave after it was made, too.
 * @param more secrets that the server gave for this call; they are scrubbed like the token
 */
export function scrubberFor(
  { secrets, accessToken, binding, renewal }: ServerConnection,
  more: readonly string[] = [],
): Scrubber {
  const tokens = accessToken === undefined ? [] : [accessToken];
  const known = [...secrets, ...tokens, ...(renewal?.secrets() ?? []), ...more];
  if (binding === undefined) return createScrubber(known);
  let proofs: readonly string[] = [];
  let scrubber = createScrubber(known);
  const current = (): Scrubber => {
    const now = binding.secrets();
    if (now.length !== proofs.length || now.at(-1) !== proofs.at(-1)) {
      proofs = now;
      scrubber = createScrubber([...known, ...proofs]);
    }
    return scrubber;
  };
  return {
    text: (value) => current().text(value),
    value: (value) => current().value(value),
    largeValue: async (value) => await current().largeValue(value),
    largeBytes: async (value) => await current().largeBytes(value),
  };
}

export function namesOf(
  { name: server }: ServerConnection,
  call: Pick<ToolCall, 'definition'>,
  quote: Names['quote'],
): Names {
  return { server, tool: call.definition.name, ...(isRead(call) ? { reads: true } : {}), quote };
}

const SHORTEST_SESSION_ID = 16;

/** A holder of a session id can ask for answers. Shorter ids are no secrets, and may be ordinary words. */
export function secretIds(sessionId: string | undefined): string[] {
  return sessionId !== undefined && sessionId.length >= SHORTEST_SESSION_ID ? [sessionId] : [];
}

export async function executed(
  raw: Fields,
  { definition, resultBytes, sharedBy, signal, noInput }: Answered,
  { artifacts, scrub, names, asked = false }: MeaningParts,
): Promise<CallEnding> {
  const { resultType } = raw;
  // Absent before 2026-07-28.
  if (resultType !== undefined && resultType !== 'complete')
    return halfway(names, typeof resultType === 'string' ? resultType : typeof resultType, noInput);
  const { outputSchema } = definition;
  const rules = { artifacts, scrub, signal, maxBytes: resultBytes, ...defined({ sharedBy, outputSchema }) };
  const result = await toolResultOf(raw, rules);
  // Absent means false (MCP server/tools); any other odd value is no success.
  const isError = raw['isError'] !== undefined && raw['isError'] !== false;
  const [only, ...others] = result.content;
  if (!asked && isError && others.length === 0 && only?.type === 'text' && isV1UnknownTool(only.text, names.tool))
    return vanished(names);
  return { kind: 'executed', isError, result };
}

/** Makes words of a server fit for a message of ours: scrubbed, on one line, bounded. */
export function quoted(scrub: Scrubber, text: string): string {
  const line = scrubbedBeginning(scrub, text)
    .slice(0, 10 * MAX_QUOTE_CHARACTERS)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return line.length > MAX_QUOTE_CHARACTERS ? `${line.slice(0, MAX_QUOTE_CHARACTERS)}…` : line;
}

export interface ResultRules {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  /** Aborted when nobody waits for the call any more. */
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  readonly sharedBy?: number;
  readonly outputSchema?: JsonObject;
  /** Time for everything that is stored of one result. */
  readonly storingMs?: number;
}

const MAX_WARNINGS = 20;
const MAX_WARNING_CHARACTERS = 300;

/** Never throws: the tool has run. */
export async function toolResultOf(raw: Fields, rules: ResultRules): Promise<ToolResult> {
  const warnings: string[] = [];
  try {
    const artifacts = inTime(rules.artifacts, rules.storingMs ?? STORING_MS, rules.signal);
    return await mapped(raw, { ...rules, artifacts }, warnings);
  } catch {
    return {
      content: [{ type: 'text', text: '[The tool has run; its result could not be read.]' }],
      ...warned([...warnings, 'the result could not be read']),
    };
  }
}

async function mapped(raw: Fields, rules: ResultRules, warnings: string[]): Promise<ToolResult> {
  const { scrub } = rules;
  const warn = (warning: string): void => {
    warnings.push(scrubbedBeginning(scrub, warning).slice(0, MAX_WARNING_CHARACTERS));
  };
  const tooDeep = nestsTooDeeply(raw['structuredContent']);
  if (tooDeep) warn(`the structured result nests deeper than ${MAX_NESTING} levels and was dropped`);
  const isEndless = !tooDeep && holdsEndlessNumber(raw['structuredContent']);
  if (isEndless) warn(`the structured result holds ${ENDLESS_NUMBER}, which is null here`);
  // The SDK has parsed the answer, and nobody has its text any more.
  if (!tooDeep && holdsLargeNumber(raw['structuredContent'])) warn(`the structured result holds ${LARGE_NUMBER}`);
  // History would have null. Whoever reads the result before, as a stretch does, could not hash it: the call, which has
  // run, would be made again.
  const given = tooDeep ? undefined : isEndless ? jsonOf(raw['structuredContent']) : raw['structuredContent'];
  if (rules.outputSchema !== undefined && raw['isError'] !== true && !tooDeep) {
    const violation = outputViolation(rules.outputSchema, given);
    if (violation !== undefined) warn(violation);
  }
  // They are scrubbed together, since a secret may begin in one and go on in another. Sound: scrubbing turns a string
  // into a string, and keeps the shape.
  const [texts, clean] = (await scrub.largeValue([textsOf(raw['content']), given])) as [
    ReturnType<typeof textsOf>,
    JsonValue,
  ];
  const content = await contentOf(raw['content'], texts, rules, warn);
  const structured = given === undefined ? {} : { structured: clean };
  const json = JSON.stringify({ content, ...structured });
  const bytes = byteLength(json);
  if (bytes <= rules.maxBytes) return { content, ...structured, ...warned(warnings) };
  const reference = defined({ full: await stored(Buffer.from(json, 'utf8'), 'application/json', rules, warn) });
  const whole = { content, ...structured, bytes, ...reference, ...defined({ sharedBy: rules.sharedBy }) };
  return { content: previewOf(whole, rules.maxBytes), ...reference, ...warned(warnings) };
}

function warned(warnings: readonly string[]): Pick<ToolResult, 'warnings'> {
  if (warnings.length === 0) return {};
  const left = warnings.length - MAX_WARNINGS;
  return { warnings: left > 0 ? [...warnings.slice(0, MAX_WARNINGS), `and ${left} more`] : [...warnings] };
}

const CHECK_MS = 200;

export function outputViolation(outputSchema: JsonObject, structured: unknown): string | undefined {
  if (structured === undefined) return 'the tool promised a structured result and gave none';
  try {
    const problem = within(CHECK_MS, () => new ServerSchema(outputSchema).problems(structured)).at(-1);
    return problem === undefined ? undefined : `the result does not match the tool's output schema at ${problem}`;
  } catch {
    return "the tool's output schema could not be applied";
  }
}

type Warn = (warning: string) => void;

const MAX_PARTS = 1_000;
const MAX_STORED_PARTS = 100;
const MAX_LABEL_CHARACTERS = 200;

const DROPPED = Symbol('dropped');
/** Returns undefined if storing failed. */
type StorePart = (base64: string, contentType: string) => Promise<ArtifactRef | typeof DROPPED | undefined>;

/** The texts of a part; its base64 content is searched as bytes (`partStore`). */
const TEXTS = ['type', 'text', 'uri', 'name', 'description', 'mimeType'] as const;

/** Texts of the parts that may be kept, to be scrubbed together: a secret may be split over two parts. */
function textsOf(given: unknown): Fields[] {
  return partsOf(given)
    .slice(0, MAX_PARTS)
    .map((part) => {
      const fields = fieldsOf(part);
      const { resource } = fields;
      return { ...textFields(fields), ...(resource === undefined ? {} : { resource: textFields(fieldsOf(resource)) }) };
    });
}

function textFields(fields: Fields): Fields {
  return Object.fromEntries(
    TEXTS.flatMap((name) => (typeof fields[name] === 'string' ? [[name, fields[name]] as const] : [])),
  );
}

function partsOf(given: unknown): readonly unknown[] {
  // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is checked.
  return Array.isArray(given) ? (given as readonly unknown[]) : [];
}

/** Keeps text in place, and binary in the artifact store. @param texts the scrubbed result of `textsOf` */
async function contentOf(
  given: unknown,
  texts: readonly Fields[],
  rules: ResultRules,
  warn: Warn,
): Promise<ResultPart[]> {
  if (!Array.isArray(given)) {
    warn('the result has no list of content');
    return [];
  }
  const parts = partsOf(given);
  const store = partStore(rules, warn);
  const content: ResultPart[] = [];
  let dropped = Math.max(0, parts.length - MAX_PARTS);
  for (const [index, part] of parts.slice(0, MAX_PARTS).entries()) {
    const kept = await partOf(fieldsOf(part), texts[index] ?? {}, store, warn);
    if (kept === DROPPED) dropped += 1;
    else if (kept !== undefined) content.push(kept);
  }
  const bounds = `${MAX_PARTS} are kept, ${MAX_STORED_PARTS} of them stored, and none once the call is cancelled`;
  if (dropped > 0) warn(`${dropped} of ${parts.length} parts were dropped: ${bounds}`);
  return content;
}

function partStore(rules: ResultRules, warn: Warn): StorePart {
  const { scrub, signal } = rules;
  let left = MAX_STORED_PARTS;
  return async (base64, contentType) => {
    if (left === 0 || signal.aborted) return DROPPED;
    left -= 1;
    const clean = await scrub.largeBytes(Buffer.from(base64, 'base64'));
    // The search of a large part takes seconds, in which the call may be cancelled.
    return signal.aborted ? DROPPED : await stored(clean, contentType, rules, warn);
  };
}

async function partOf(
  { data, resource, type: given }: Fields,
  texts: Fields,
  store: StorePart,
  warn: Warn,
): Promise<ResultPart | typeof DROPPED | undefined> {
  const { type, text, uri, name, description } = texts;
  const mimeType = labelOf(texts['mimeType']);
  if (type === 'text' && typeof text === 'string') return { type, text };
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    const kind = mimeType ?? 'application/octet-stream';
    const artifact = await store(data, kind);
    if (artifact === DROPPED) return DROPPED;
    return artifact === undefined ? { type: 'text', text: `[${type} not kept]` } : { type, mimeType: kind, artifact };
  }
  if (type === 'resource_link' && typeof uri === 'string') {
    const named = { name: typeof name === 'string' ? name : uri, ...defined({ mimeType }) };
    return { type, uri, ...named, ...(typeof description === 'string' ? { description } : {}) };
  }
  if (type === 'resource') {
    const kept = await resourceOf(fieldsOf(resource), fieldsOf(texts['resource']), store);
    if (kept !== undefined) return kept;
  }
  warn(`content of kind "${labelOf(type) ?? typeof given}" was dropped: not of a known kind, or malformed`);
  return undefined;
}

async function resourceOf(
  { blob }: Fields,
  { uri, mimeType: kind, text }: Fields,
  store: StorePart,
): Promise<ResultPart | typeof DROPPED | undefined> {
  if (typeof uri !== 'string') return undefined;
  const mimeType = labelOf(kind);
  const head = { type: 'resource' as const, uri, ...defined({ mimeType }) };
  if (typeof text === 'string') return { ...head, text };
  if (typeof blob !== 'string') return undefined;
  const artifact = await store(blob, mimeType ?? 'application/octet-stream');
  if (artifact === DROPPED) return DROPPED;
  return artifact === undefined ? { ...head, text: '[not kept]' } : { ...head, artifact };
}

async function stored(
  bytes: Uint8Array,
  contentType: string,
  { artifacts }: ResultRules,
  warn: Warn,
): Promise<ArtifactRef | undefined> {
  try {
    return await artifacts.put(bytes, contentType);
  } catch {
    // A full disk must not turn a call that ran into one of unknown outcome.
    warn(`${bytes.length} bytes of ${contentType} could not be stored and are lost`);
    return undefined;
  }
}

function labelOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_LABEL_CHARACTERS) : undefined;
}

export interface Whole {
  readonly content: readonly ResultPart[];
  readonly structured?: JsonValue;
  /** UTF-8 bytes of the JSON of the fields above. */
  readonly bytes: number;
  /** Absent if it could not be stored. */
  readonly full?: ArtifactRef;
  readonly sharedBy?: number;
}

/** @param maxBytes bound on the parts of the preview, as JSON */
export function previewOf(whole: Whole, maxBytes: number): ResultPart[] {
  // A structured result without content is shown as text.
  const source: readonly ResultPart[] =
    whole.content.length > 0 || whole.structured === undefined
      ? whole.content
      : [{ type: 'text', text: JSON.stringify(whole.structured) }];
  const shown: ResultPart[] = [];
  // One byte less: a list has a bracket at both ends.
  const room = maxBytes - 1 - sizeOf(noteOn(whole, whole.bytes, source.length, source.length));
  let left = room;
  for (const part of source) {
    const fitting = sizeOf(part) <= left ? part : cutToFit(part, left);
    if (fitting === undefined) break;
    shown.push(fitting);
    left -= sizeOf(fitting);
    if (fitting !== part) break;
  }
  return [...shown, noteOn(whole, room - left, shown.length, source.length)];
}

function noteOn({ bytes, full, sharedBy }: Whole, shownBytes: number, shown: number, parts: number): ResultPart {
  const where =
    full === undefined ? 'The whole could not be stored.' : `The whole is artifact ${full.sha256.slice(0, 12)}.`;
  const shared = sharedBy === undefined ? '' : ` ${sharedBy} calls share the room of this turn.`;
  return {
    type: 'text',
    text: `[Cut: ${shownBytes} of ${bytes} bytes of this result are shown, in ${shown} of ${parts} part(s).${shared} ${where}]`,
  };
}

function cutToFit(part: ResultPart, maxBytes: number): ResultPart | undefined {
  if ((part.type !== 'text' && part.type !== 'resource') || part.text === undefined) return undefined;
  let low = 0;
  // A character takes at least one byte.
  let high = Math.min(part.text.length, Math.max(0, maxBytes));
  // Halving: escaping and UTF-8 make the size of a prefix no plain function of its length.
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sizeOf({ ...part, text: part.text.slice(0, middle) }) <= maxBytes) low = middle;
    else high = middle - 1;
  }
  const text = part.text.slice(0, low).replace(/[\ud800-\udbff]$/, '');
  return text === '' ? undefined : { ...part, text };
}

/** With the comma or bracket after it. */
function sizeOf(part: ResultPart): number {
  return byteLength(JSON.stringify(part)) + 1;
}

// A read has no effect: whatever error a server answers, nothing has happened that could be in doubt.

/** 2025-11-25 says -32002; 2026-07-28, and both SDKs before it, -32602. */
const NO_SUCH_RESOURCE: ReadonlySet<number> = new Set([-32_002, -32_602]);

export function isRead({ definition }: Pick<ToolCall, 'definition'>): boolean {
  return definition.name === READ_RESOURCE;
}

export function uriOf(call: Pick<ToolCall, 'definition' | 'arguments'>): string | undefined {
  if (!isRead(call)) return undefined;
  const { uri } = call.arguments;
  if (typeof uri !== 'string') throw new Error('a read without a URI');
  return uri;
}

/** Puts contents into the form of a tool's result: each is an embedded resource. */
function contentsAsResult({ contents, ...rest }: Fields): Record<string, unknown> {
  const { resultType } = rest;
  const content = Array.isArray(contents)
    ? partsOf(contents).map((resource) => ({ type: 'resource', resource }))
    : undefined;
  return defined({ resultType, content });
}

function endingOfRead(error: Extract<RawAnswer, { kind: 'error' }>, names: Names, noInput?: string): CallEnding {
  const { code, message } = error;
  if (!NO_SUCH_RESOURCE.has(code)) return refusedBy(error, names, noInput);
  const text = `Server "${names.server}" has no such resource, or not any more; nothing was read (JSON-RPC error ${code}: ${names.quote(message)}).`;
  return { kind: 'refused', code: 'RESOURCE_UNKNOWN', message: text };
}

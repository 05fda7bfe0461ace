/**
 * Keeps the content of a tool result, text in place and binary in the artifact store, and makes previews of large
 * results.
 *
 * It owns kinds of content and how many parts are kept. It does not own the size of the whole (`classify-result.ts`).
 * 1. Everything is scrubbed before it is cut or stored (INV-S1): texts together before they come here, binary parts one
 *    by one.
 * 2. The number of parts is bounded: each stored part is written and synced by itself, and one answer has room for
 *    hundreds of thousands.
 * 3. The parts of a preview, as JSON, take at most the given bytes; text is cut between characters. The last part says
 *    how much was cut and where the whole is.
 */
import type { ResultPart } from '../../contracts/schemas/call.ts';
import type { ArtifactRef, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { Scrubber } from '../kit/scrubber.ts';

export interface ContentRules {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  /** Aborted when nobody waits for the call any more. */
  readonly signal: AbortSignal;
}

type Warn = (warning: string) => void;

const MAX_PARTS = 1_000;
const MAX_STORED_PARTS = 100;
const MAX_LABEL_CHARACTERS = 200;

/** A part as the server sent it: no field is known. */
type RawPart = Readonly<Record<string, unknown>>;

const DROPPED = Symbol('dropped');

/** Stores parts, up to the number that one result may store. */
interface PartStore {
  /** @returns undefined if it failed */
  put(base64: string, contentType: string): Promise<ArtifactRef | typeof DROPPED | undefined>;
}

/** The texts of a part; its base64 content is searched as bytes (`partStore`). */
const TEXTS = ['type', 'text', 'uri', 'name', 'description', 'mimeType'] as const;

/**
 * Collects all texts of the parts that may be kept. They are scrubbed together, because a secret may be split over two
 * parts.
 */
export function textsOf(given: unknown): RawPart[] {
  return partsOf(given)
    .slice(0, MAX_PARTS)
    .map((part) => {
      const fields = fieldsOf(part);
      const { resource } = fields;
      return { ...textFields(fields), ...(resource === undefined ? {} : { resource: textFields(fieldsOf(resource)) }) };
    });
}

function textFields(fields: RawPart): RawPart {
  return Object.fromEntries(
    TEXTS.flatMap((name) => (typeof fields[name] === 'string' ? [[name, fields[name]] as const] : [])),
  );
}

function partsOf(given: unknown): readonly unknown[] {
  // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is checked.
  return Array.isArray(given) ? (given as readonly unknown[]) : [];
}

function fieldsOf(value: unknown): RawPart {
  // Sound: any object may be read as a record of unknown values.
  return typeof value === 'object' && value !== null ? (value as RawPart) : {};
}

/** @param texts the scrubbed result of `textsOf` */
export async function contentOf(
  given: unknown,
  texts: readonly RawPart[],
  rules: ContentRules,
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
  if (dropped > 0)
    warn(
      `${dropped} of ${parts.length} parts were dropped: ${MAX_PARTS} are kept, ${MAX_STORED_PARTS} of them stored, and none once the call is cancelled`,
    );
  return content;
}

function partStore(rules: ContentRules, warn: Warn): PartStore {
  const { scrub, signal } = rules;
  let left = MAX_STORED_PARTS;
  return {
    put: async (base64, contentType) => {
      if (left === 0 || signal.aborted) return DROPPED;
      left -= 1;
      return await stored(scrub.bytes(Buffer.from(base64, 'base64')), contentType, rules, warn);
    },
  };
}

/** Returns the part as it is kept; undefined if its kind is unknown. */
async function partOf(
  { data, resource, type: given }: RawPart,
  texts: RawPart,
  store: PartStore,
  warn: Warn,
): Promise<ResultPart | typeof DROPPED | undefined> {
  const { type, text, uri, name, description } = texts;
  const mimeType = labelOf(texts['mimeType']);
  if (type === 'text' && typeof text === 'string') return { type, text };
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    const kind = mimeType ?? 'application/octet-stream';
    const artifact = await store.put(data, kind);
    if (artifact === DROPPED) return DROPPED;
    return artifact === undefined ? { type: 'text', text: `[${type} not kept]` } : { type, mimeType: kind, artifact };
  }
  if (type === 'resource_link' && typeof uri === 'string') {
    return {
      type,
      uri,
      name: typeof name === 'string' ? name : uri,
      ...(mimeType === undefined ? {} : { mimeType }),
      ...(typeof description === 'string' ? { description } : {}),
    };
  }
  if (type === 'resource') {
    const kept = await resourceOf(fieldsOf(resource), fieldsOf(texts['resource']), store);
    if (kept !== undefined) return kept;
  }
  warn(`content of kind "${labelOf(type) ?? typeof given}" was dropped: not of a known kind, or malformed`);
  return undefined;
}

async function resourceOf(
  { blob }: RawPart,
  { uri, mimeType: kind, text }: RawPart,
  store: PartStore,
): Promise<ResultPart | typeof DROPPED | undefined> {
  if (typeof uri !== 'string') return undefined;
  const mimeType = labelOf(kind);
  const head = { type: 'resource' as const, uri, ...(mimeType === undefined ? {} : { mimeType }) };
  if (typeof text === 'string') return { ...head, text };
  if (typeof blob !== 'string') return undefined;
  const artifact = await store.put(blob, mimeType ?? 'application/octet-stream');
  if (artifact === DROPPED) return DROPPED;
  return artifact === undefined ? { ...head, text: '[not kept]' } : { ...head, artifact };
}

/** Stores bytes as an artifact. A failure is a warning and gives undefined. */
export async function stored(
  bytes: Uint8Array,
  contentType: string,
  { artifacts }: ContentRules,
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

// A preview is a bounded view of a result that is too large for the model and for history.

export interface Whole {
  readonly content: readonly ResultPart[];
  readonly structured?: JsonValue;
  /** UTF-8 bytes of the JSON of the fields above. */
  readonly bytes: number;
  /** Absent if it could not be stored. */
  readonly full?: ArtifactRef;
  /** Number of calls that share the room of their turn; it explains why the preview is short. */
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
  if (part.type === 'text') {
    const text = longestPrefix(part.text, maxBytes, (prefix) => sizeOf({ ...part, text: prefix }) <= maxBytes);
    return text === '' ? undefined : { ...part, text };
  }
  if (part.type !== 'resource' || part.text === undefined) return undefined;
  const text = longestPrefix(part.text, maxBytes, (prefix) => sizeOf({ ...part, text: prefix }) <= maxBytes);
  return text === '' ? undefined : { ...part, text };
}

/** Searches by halving: escaping and UTF-8 make the size of a prefix no plain function of its length. */
function longestPrefix(text: string, maxBytes: number, fits: (prefix: string) => boolean): string {
  let low = 0;
  // A character takes at least one byte.
  let high = Math.min(text.length, Math.max(0, maxBytes));
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(text.slice(0, middle))) low = middle;
    else high = middle - 1;
  }
  const half = /[\ud800-\udbff]$/.test(text.slice(0, low));
  return text.slice(0, half ? low - 1 : low);
}

/** Size with the comma or bracket that joins the part to the next. */
function sizeOf(part: ResultPart): number {
  return byteLength(JSON.stringify(part)) + 1;
}

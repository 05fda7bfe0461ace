/**
 * The content of a tool result as it is kept: text in place, binary in the artifact store.
 *
 * Owns kinds of content and how many parts are kept. Does not own the size of the whole (`result.ts`).
 *
 * 1. Everything is scrubbed before it is cut or stored (INV-S1): texts together, before they come here; binary parts each by itself.
 * 2. Bounded in number: each stored part is written and synced by itself, and one answer has room for hundreds of thousands.
 */
import type { ResultPart } from '../../contracts/schemas/call.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { Scrubber } from './scrub.ts';

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

/** A part as the server sent it: nothing is known of any field. */
type RawPart = Readonly<Record<string, unknown>>;

const DROPPED = Symbol('dropped');

/** Stores as many parts as one result may have stored. */
interface PartStore {
  /** @returns undefined where it failed */
  put(base64: string, contentType: string): Promise<ArtifactRef | typeof DROPPED | undefined>;
}

/** The texts of a part; what it holds in base64 is searched as bytes (`partStore`). */
const TEXTS = ['type', 'text', 'uri', 'name', 'description', 'mimeType'] as const;

/** All texts of the parts that may be kept, to be scrubbed together: a secret may be split over two parts. */
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
  // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is looked at.
  return Array.isArray(given) ? (given as readonly unknown[]) : [];
}

function fieldsOf(value: unknown): RawPart {
  // Sound: any object may be read as a record of unknown values.
  return typeof value === 'object' && value !== null ? (value as RawPart) : {};
}

/** @param texts what `textsOf` gives, scrubbed */
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

/** The part as it is kept; undefined where it is of no known kind. */
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

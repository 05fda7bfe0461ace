/**
 * The content of a tool result as it is kept: text in place, binary in the artifact store.
 *
 * Owns kinds of content and how many parts are kept. Does not own the size of the whole (`result.ts`).
 *
 * 1. Everything is scrubbed before it is cut or stored (INV-S1).
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
  readonly scrub: Scrubber;
  /** @returns undefined where it failed */
  put(base64: string, contentType: string): Promise<ArtifactRef | typeof DROPPED | undefined>;
}

export async function contentOf(given: unknown, rules: ContentRules, warn: Warn): Promise<ResultPart[]> {
  if (!Array.isArray(given)) {
    warn('the result has no list of content');
    return [];
  }
  // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is looked at.
  const parts = given as readonly unknown[];
  const store = partStore(rules, warn);
  const content: ResultPart[] = [];
  let dropped = Math.max(0, parts.length - MAX_PARTS);
  for (const part of parts.slice(0, MAX_PARTS)) {
    const kept = await partOf(part, store, warn);
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
    scrub,
    put: async (base64, contentType) => {
      if (left === 0 || signal.aborted) return DROPPED;
      left -= 1;
      return await stored(scrub.bytes(Buffer.from(base64, 'base64')), contentType, rules, warn);
    },
  };
}

/** The part as it is kept; undefined where it is of no known kind. */
async function partOf(part: unknown, store: PartStore, warn: Warn): Promise<ResultPart | typeof DROPPED | undefined> {
  const text = (value: string): string => store.scrub.text(value);
  // Sound: any object may be read as a record of unknown values.
  const fields: RawPart = typeof part === 'object' && part !== null ? (part as RawPart) : {};
  const { type, data, uri, name, description, resource } = fields;
  const mimeType = labelOf(fields['mimeType'], text);
  if (type === 'text' && typeof fields['text'] === 'string') return { type, text: text(fields['text']) };
  if ((type === 'image' || type === 'audio') && typeof data === 'string') {
    const kind = mimeType ?? 'application/octet-stream';
    const artifact = await store.put(data, kind);
    if (artifact === DROPPED) return DROPPED;
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
    const kept = await resourceOf(resource as RawPart, store, text);
    if (kept !== undefined) return kept;
  }
  // Scrubbed before it is cut: half a secret is not found.
  warn(`content of kind "${labelOf(type, text) ?? typeof type}" was dropped: not of a known kind, or malformed`);
  return undefined;
}

async function resourceOf(
  resource: RawPart,
  store: PartStore,
  text: (value: string) => string,
): Promise<ResultPart | typeof DROPPED | undefined> {
  if (typeof resource['uri'] !== 'string') return undefined;
  const mimeType = labelOf(resource['mimeType'], text);
  const head = {
    type: 'resource' as const,
    uri: text(resource['uri']),
    ...(mimeType === undefined ? {} : { mimeType }),
  };
  if (typeof resource['text'] === 'string') return { ...head, text: text(resource['text']) };
  if (typeof resource['blob'] !== 'string') return undefined;
  const artifact = await store.put(resource['blob'], mimeType ?? 'application/octet-stream');
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

function labelOf(value: unknown, text: (value: string) => string): string | undefined {
  return typeof value === 'string' && value !== '' ? text(value).slice(0, MAX_LABEL_CHARACTERS) : undefined;
}

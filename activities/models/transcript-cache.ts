/**
 * This cache keeps the conversations that this worker knows, so that a step fetches only its new messages (INV-D2).
 *
 * 1. The result is exactly the conversation that `base.digest` and the tail name. It comes from the cache by that
 *    digest, or is fetched and checked against it; otherwise the error is `TRANSCRIPT_MISMATCH`.
 * 2. The cache is bounded by bytes and conversations, and drops the least recently used first. A lost entry costs a
 *    query.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { EMPTY_DIGEST, extendDigest } from '../../domain/run/journal.ts';

/** Returns messages from `from` up to, not including, `to`; a page may hold fewer, but at least one. */
export type FetchRange = (from: number, to: number) => Promise<readonly Message[]>;

export interface TranscriptPosition {
  readonly base: { readonly length: number; readonly digest: string };
  readonly tail: readonly Message[];
}

export interface TranscriptCache {
  resolveTranscript(position: TranscriptPosition, fetchRange: FetchRange): Promise<readonly Message[]>;
}

export interface TranscriptCacheLimits {
  /** Size of messages as JSON text, in UTF-16 units. */
  readonly maxBytes: number;
  readonly maxEntries: number;
}

interface Conversation {
  readonly messages: readonly Message[];
  readonly bytes: number;
  /** Length of the conversation by digest: at its end, and at the step before for a retry. */
  readonly marks: ReadonlyMap<string, number>;
}

export function createTranscriptCache(
  limits: TranscriptCacheLimits = { maxBytes: 64 * 1_048_576, maxEntries: 1_000 },
): TranscriptCache {
  // The least recently used comes first. A conversation, not a step, is an entry, so that nothing is counted twice.
  const conversations = new Set<Conversation>();
  const byDigest = new Map<string, Conversation>();
  let bytes = 0;

  const forget = (conversation: Conversation): void => {
    if (!conversations.delete(conversation)) return;
    bytes -= conversation.bytes;
    for (const digest of conversation.marks.keys()) if (byDigest.get(digest) === conversation) byDigest.delete(digest);
  };
  const remember = (conversation: Conversation): void => {
    if (conversation.bytes > limits.maxBytes) return;
    conversations.add(conversation);
    bytes += conversation.bytes;
    for (const [digest, length] of conversation.marks) if (length > 0) byDigest.set(digest, conversation);
    for (const oldest of conversations) {
      if (bytes <= limits.maxBytes && conversations.size <= limits.maxEntries) return;
      forget(oldest);
    }
  };
  const find = ({ length, digest }: TranscriptPosition['base']): Conversation | undefined => {
    const found = byDigest.get(digest);
    return found?.marks.get(digest) === length ? found : undefined;
  };

  return {
    resolveTranscript: async ({ base, tail }, fetchRange) => {
      const end = { length: base.length + tail.length, digest: digestOf(tail, base.digest) };
      const same = find(end);
      if (same !== undefined) {
        forget(same);
        remember(same);
        return same.messages.slice(0, end.length);
      }
      const known = find(base);
      const prefix = known === undefined ? await fetchPrefix(base, fetchRange) : known.messages.slice(0, base.length);
      // A known conversation that is longer than `base` belongs to another run with the same beginning, and stays.
      const isExtended = known?.messages.length === base.length;
      if (isExtended) forget(known);
      // Another step may have fetched the same conversation meanwhile.
      const twin = find(end);
      if (twin !== undefined) forget(twin);
      const messages = [...prefix, ...tail];
      const size = (isExtended ? known.bytes : sizeOf(prefix)) + sizeOf(tail);
      remember({
        messages,
        bytes: size,
        marks: new Map([
          [base.digest, base.length],
          [end.digest, end.length],
        ]),
      });
      return messages.slice();
    },
  };
}

async function fetchPrefix(
  { length, digest }: TranscriptPosition['base'],
  fetchRange: FetchRange,
): Promise<readonly Message[]> {
  const messages: Message[] = [];
  while (messages.length < length) {
    const page = await fetchRange(messages.length, length);
    if (page.length === 0) break;
    for (const message of page.slice(0, length - messages.length)) messages.push(message);
  }
  if (messages.length !== length || digestOf(messages, EMPTY_DIGEST) !== digest) {
    throw new CountersignError(
      'TRANSCRIPT_MISMATCH',
      `The stored conversation is not the one of this step: ${messages.length} of ${length} messages were read, and the digest of the first ${length} is not ${digest}.`,
    );
  }
  return messages;
}

function digestOf(messages: readonly Message[], from: string): string {
  return messages.reduce(extendDigest, from);
}

function sizeOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0);
}

/**
 * One execution's part of the transcript and the ledger: each message and entry once, older ones by reference.
 *
 * 1. A journal is append-only. `head` says where both chains end; a journal made from a head goes on there.
 * 2. Extending the transcript digest costs the new message only: nothing per turn grows with the run (INV-D2).
 * 3. An entry's hash covers its number, time, fact and the hash before it: any change breaks every later hash.
 */
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { JournalHead } from '../../contracts/wire/carry.ts';
import { canonicalJson, hashOf, sha256Hex } from '../text/canonical.ts';

/** Digest of the empty transcript. A digest names every message before a point in 32 bytes. */
export const EMPTY_DIGEST = '0'.repeat(64);

export function extendDigest(digest: string, message: Message): string {
  return sha256Hex(digest + canonicalJson(message));
}

/** `prev` of the first entry. */
export const GENESIS = '0'.repeat(64);

/** Hashes a fact into the chain. @param at epoch ms */
export function sealEntry(seq: number, prev: string, at: number, fact: LedgerFact): LedgerEntry {
  const body = { seq, at: new Date(at).toISOString(), prev, fact };
  return { ...body, hash: hashOf(body) };
}

export type LedgerCheck =
  | { readonly kind: 'intact'; readonly head: string; readonly length: number }
  | { readonly kind: 'broken'; readonly seq: number; readonly reason: string };

/** Checks entries of a chain, the first of which has number `from` and follows the hash `prev`. */
export function verifyChain(entries: readonly LedgerEntry[], from = 0, prev = GENESIS): LedgerCheck {
  let head = prev;
  for (const [index, entry] of entries.entries()) {
    const seq = from + index;
    if (entry.seq !== seq) return { kind: 'broken', seq, reason: `expected number ${seq}, found ${entry.seq}` };
    if (entry.prev !== head) return { kind: 'broken', seq, reason: 'does not follow the entry before it' };
    const { hash, ...body } = entry;
    if (hashOf(body) !== hash) return { kind: 'broken', seq, reason: 'was changed after it was written' };
    head = hash;
  }
  return { kind: 'intact', head, length: from + entries.length };
}

export const EMPTY_JOURNAL: JournalHead = {
  ledgerLength: 0,
  ledgerHead: GENESIS,
  transcriptLength: 0,
  transcriptDigest: EMPTY_DIGEST,
};

export class Journal {
  readonly ledgerFrom: number;
  readonly transcriptFrom: number;
  readonly segment: ArtifactRef | undefined;
  readonly #entries: LedgerEntry[];
  readonly #messages: Message[] = [];
  readonly #headBefore: string;
  #transcriptDigest: string;

  constructor(head: JournalHead) {
    this.ledgerFrom = head.ledgerLength;
    this.transcriptFrom = head.transcriptLength;
    this.segment = head.segment;
    this.#entries = [...(head.since ?? [])];
    this.#headBefore = head.ledgerHead;
    this.#transcriptDigest = head.transcriptDigest;
  }

  get ledgerLength(): number {
    return this.ledgerFrom + this.#entries.length;
  }

  get ledgerHead(): string {
    return this.#entries.at(-1)?.hash ?? this.#headBefore;
  }

  get transcriptLength(): number {
    return this.transcriptFrom + this.#messages.length;
  }

  get transcriptDigest(): string {
    return this.#transcriptDigest;
  }

  /** Time of the newest entry that this execution has recorded, in epoch ms; 0 if there is none. */
  get lastAt(): number {
    const at = this.#entries.at(-1)?.at;
    return at === undefined ? 0 : Date.parse(at);
  }

  /** @param at epoch ms */
  record(at: number, fact: LedgerFact): void {
    this.#entries.push(sealEntry(this.ledgerLength, this.ledgerHead, at, fact));
  }

  append(message: Message): void {
    this.#messages.push(message);
    this.#transcriptDigest = extendDigest(this.#transcriptDigest, message);
  }

  /** Returns the entries [from, to) that this execution holds; `messages` does so for messages. */
  entries(from: number, to: number): readonly LedgerEntry[] {
    return this.#entries.slice(Math.max(0, from - this.ledgerFrom), Math.max(0, to - this.ledgerFrom));
  }

  messages(from: number, to: number): readonly Message[] {
    return this.#messages.slice(Math.max(0, from - this.transcriptFrom), Math.max(0, to - this.transcriptFrom));
  }

  /** Returns the heads for the next execution. `segment` holds all messages, and the entries before number `stored`. */
  head(segment: ArtifactRef, stored = this.ledgerLength): JournalHead {
    const since = this.entries(stored, this.ledgerLength);
    return {
      ledgerLength: stored,
      ledgerHead: since[0]?.prev ?? this.ledgerHead,
      ...(since.length === 0 ? {} : { since }),
      transcriptLength: this.transcriptLength,
      transcriptDigest: this.#transcriptDigest,
      segment,
    };
  }
}

/** Adds the transcript's length and digest to facts that mark a place in it: they bind all earlier messages. */
export function marked(
  fact: LedgerFact,
  { transcriptLength: length, transcriptDigest: digest }: Pick<Journal, 'transcriptLength' | 'transcriptDigest'>,
): LedgerFact {
  // Sound: every kind listed in `MARKS` has the field `conversation`.
  return MARKS.includes(fact.kind) ? ({ ...fact, conversation: { length, digest } } as LedgerFact) : fact;
}

const MARKS: readonly LedgerFact['kind'][] = ['turn.proposed', 'run.rolled', 'run.ended'];

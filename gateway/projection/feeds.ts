/**
 * Follows the ledgers of runs that somebody watches: one watch for each run, whatever the number of readers.
 *
 * 1. Entries come in order, each once, from the number that a reader names.
 * 2. A feed ends soon after its last reader has gone; memory is bounded by what it holds.
 */
import type { Countersign } from '../../client/countersign.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';

const LINGER_MS = 10_000;
/** Entries that one feed holds; a reader that wants earlier ones reads them by itself. */
const MOST_HELD = 2_000;
const PAGE = 200;

interface Reader {
  next: number;
  readonly tell: (entry: LedgerEntry) => void;
  readonly end: (error?: CountersignError) => void;
}

export class Feeds {
  readonly #countersign: Countersign;
  readonly #feeds = new Map<string, Feed>();

  constructor(countersign: Countersign) {
    this.#countersign = countersign;
  }

  /** Number of runs that are watched. */
  get size(): number {
    return this.#feeds.size;
  }

  /**
   * Tells the entries of a run from number `from` on, until the run or `signal` ends.
   * @throws CountersignError if the run cannot be read
   */
  async follow(runId: string, from: number, signal: AbortSignal, tell: (entry: LedgerEntry) => void): Promise<void> {
    const known = this.#feeds.get(runId);
    const feed = known ?? new Feed(this.#countersign, runId, from, () => this.#feeds.delete(runId));
    this.#feeds.set(runId, feed);
    await feed.follow(from, signal, tell);
  }

  close(): void {
    for (const feed of this.#feeds.values()) feed.close();
  }
}

class Feed {
  readonly #countersign: Countersign;
  readonly #runId: string;
  readonly #held: LedgerEntry[] = [];
  readonly #readers = new Set<Reader>();
  readonly #over = new AbortController();
  readonly #onEnd: () => void;
  readonly #from: number;
  #trouble: CountersignError | undefined;
  #lingering: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(countersign: Countersign, runId: string, from: number, onEnd: () => void) {
    this.#countersign = countersign;
    this.#runId = runId;
    this.#onEnd = onEnd;
    this.#from = from;
    void this.#watch(from);
  }

  close(): void {
    this.#over.abort();
  }

  async follow(from: number, signal: AbortSignal, tell: Reader['tell']): Promise<void> {
    clearTimeout(this.#lingering);
    let end: Reader['end'] = () => undefined;
    const over = new Promise<void>((resolve, reject) => {
      end = (error) => (error === undefined ? resolve() : reject(error));
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const reader: Reader = { next: from, tell, end };
    try {
      await this.#catchUp(reader, signal);
      if (this.#ended) end(this.#trouble);
      else this.#readers.add(reader);
      await over;
    } finally {
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#lingering = setTimeout(() => this.#over.abort(), LINGER_MS).unref();
    }
  }

  /** Tells what the feed holds, and reads what it does not hold any more. */
  async #catchUp(reader: Reader, signal: AbortSignal): Promise<void> {
    for (;;) {
      const first = this.#held[0]?.seq ?? this.#from;
      if (reader.next >= first || signal.aborted) break;
      const page = { from: reader.next, most: Math.min(PAGE, first - reader.next) };
      const entries = await this.#countersign.run(this.#runId).ledgerEntries(page);
      if (entries.length === 0) break;
      for (const entry of entries) tellOnce(reader, entry);
    }
    for (const entry of this.#held) tellOnce(reader, entry);
  }

  async #watch(from: number): Promise<void> {
    try {
      const watch = this.#countersign.run(this.#runId).watch({ cursor: from, signal: this.#over.signal });
      for await (const entry of watch) {
        this.#held.push(entry);
        if (this.#held.length > MOST_HELD) this.#held.shift();
        for (const reader of this.#readers) tellOnce(reader, entry);
      }
    } catch (error) {
      this.#trouble =
        error instanceof CountersignError
          ? error
          : new CountersignError('INTERNAL', 'The run cannot be followed.', {}, { cause: error });
    }
    this.#ended = true;
    clearTimeout(this.#lingering);
    this.#onEnd();
    for (const reader of this.#readers) reader.end(this.#trouble);
  }
}

function tellOnce(reader: Reader, entry: LedgerEntry): void {
  if (entry.seq < reader.next) return;
  reader.next = entry.seq + 1;
  reader.tell(entry);
}

/**
 * Follows the ledgers of runs that somebody watches: one watch for each run, whatever the number of readers.
 *
 * 1. Entries come in order, each once, from the number that a reader names. A number that the ledger has not reached
 *    means the beginning: it is of another run, or was made up.
 * 2. Each reader goes at its own pace, and gets from the ledger what the feed does not hold any more.
 * 3. A feed ends soon after its last reader has gone; memory is bounded by what it holds.
 */
import type { Countersign } from '../../client/countersign.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { openedRequests } from '../../client/run/opened-request.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';

const LINGER_MS = 10_000;
/** Entries that one feed holds; a reader that wants earlier ones reads them by itself. */
const MOST_HELD = 2_000;
const PAGE = 200;

/** Told an entry; the next one waits for what it returns. */
type Tell = (entry: RunEvent) => Promise<void>;

export class Feeds {
  readonly #countersign: Pick<Countersign, 'run'>;
  readonly #feeds = new Map<string, Feed>();

  constructor(countersign: Pick<Countersign, 'run'>) {
    this.#countersign = countersign;
  }

  get size(): number {
    return this.#feeds.size;
  }

  /** Goes on until the run or `signal` ends. @throws CountersignError if the run cannot be read */
  async follow(runId: string, from: number, signal: AbortSignal, tell: Tell): Promise<void> {
    const start = await this.#startOf(runId, from);
    if (signal.aborted) return;
    const feed = this.#feeds.get(runId) ?? this.#open(runId, start);
    await feed.follow(start, signal, tell);
  }

  #open(runId: string, from: number): Feed {
    const feed: Feed = new Feed(this.#countersign, runId, from, () => {
      if (this.#feeds.get(runId) === feed) this.#feeds.delete(runId);
    });
    this.#feeds.set(runId, feed);
    return feed;
  }

  /** Readers name numbers freely, and the first of them decides where the one watch of a run begins. */
  async #startOf(runId: string, from: number): Promise<number> {
    if (from === 0 || from <= (this.#feeds.get(runId)?.next ?? 0)) return from;
    const before = await this.#countersign.run(runId).ledgerEntries({ from: from - 1, most: 1 });
    return before.length === 0 ? 0 : from;
  }

  close(): void {
    for (const feed of this.#feeds.values()) feed.close();
  }
}

class Feed {
  readonly #countersign: Pick<Countersign, 'run'>;
  readonly #runId: string;
  readonly #held: RunEvent[] = [];
  readonly #over = new AbortController();
  readonly #onEnd: () => void;
  readonly #waiting = new Set<() => void>();
  #readers = 0;
  /** Number of the entry that comes next; it never goes back. */
  #next: number;
  #trouble: CountersignError | undefined;
  #lingering: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(countersign: Pick<Countersign, 'run'>, runId: string, from: number, onEnd: () => void) {
    this.#countersign = countersign;
    this.#runId = runId;
    this.#onEnd = onEnd;
    this.#next = from;
    void this.#watch(from);
  }

  get next(): number {
    return this.#next;
  }

  /** Nobody joins a feed that is about to end: to its readers that would be the end of the run. */
  close(): void {
    this.#onEnd();
    this.#over.abort();
  }

  async follow(from: number, signal: AbortSignal, tell: Tell): Promise<void> {
    clearTimeout(this.#lingering);
    this.#readers += 1;
    try {
      let next = from;
      while (!signal.aborted) {
        const isBehind = next < this.#next;
        const entries = isBehind ? await this.#after(next) : [];
        for (const entry of entries) {
          if (signal.aborted) return;
          next = entry.seq + 1;
          await tell(entry);
        }
        if (entries.length > 0) continue;
        // Entries are never taken back; asking for them again would not end.
        if (isBehind) throw unfollowable();
        if (this.#ended) {
          if (this.#trouble !== undefined) throw this.#trouble;
          return;
        }
        await this.#news(next, signal);
      }
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) this.#lingering = setTimeout(() => this.close(), LINGER_MS).unref();
    }
  }

  /** Returns what the feed holds from this number on, or a page of what it does not hold any more. */
  async #after(next: number): Promise<readonly RunEvent[]> {
    const first = this.#held[0]?.seq ?? this.#next;
    if (next >= first) return this.#held.slice(next - first, next - first + PAGE);
    const page = { from: next, most: Math.min(PAGE, first - next) };
    const run = this.#countersign.run(this.#runId);
    const opened = openedRequests(async () => await run.requests());
    const events: RunEvent[] = [];
    for (const entry of await run.ledgerEntries(page)) events.push(await opened.joined(entry));
    return events;
  }

  /** Resolves when there is an entry of this number or a later one, or when the feed or `signal` ends. */
  async #news(next: number, signal: AbortSignal): Promise<void> {
    if (this.#ended || signal.aborted || next < this.#next) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }

  async #watch(from: number): Promise<void> {
    try {
      const watch = this.#countersign
        .run(this.#runId)
        .watch({ cursor: from, details: true, signal: this.#over.signal });
      for await (const entry of watch) {
        this.#held.push(entry);
        if (this.#held.length > MOST_HELD) this.#held.shift();
        this.#next = entry.seq + 1;
        for (const wake of this.#waiting) wake();
      }
    } catch (error) {
      this.#trouble = error instanceof CountersignError ? error : unfollowable(error);
    }
    this.#ended = true;
    clearTimeout(this.#lingering);
    this.#onEnd();
    for (const wake of this.#waiting) wake();
  }
}

function unfollowable(cause?: unknown): CountersignError {
  return new CountersignError('INTERNAL', 'The run cannot be followed.', {}, { cause });
}

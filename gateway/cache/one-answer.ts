/**
 * Holds one answer for all who ask within a moment: it is asked for once. Memory is bounded, by an estimate of bytes
 * (`weight.ts`); what was asked for longest ago goes first.
 */
import { LRUCache } from 'lru-cache';
import { weightOf } from './weight.ts';

interface Kept<T> {
  /** Time of the question, or of its failure. */
  at: number;
  readonly mark: unknown;
  readonly answer: Promise<T>;
  value?: T;
  hasFailed?: true;
}

interface Wanted<T> {
  /** Of what is asked for: an answer of another mark is old. */
  readonly mark?: unknown;
  /** Time for which an answer is kept; the answer is undefined while it is under way. */
  readonly freshMs?: (answer: T | undefined) => number;
  /** Time for which a failure is told again; default: it is asked anew. */
  readonly failedMs?: number;
}

const LEAST_BYTES = 1_024;

export class OneAnswer<T> {
  readonly #kept: LRUCache<string, Kept<T>>;
  readonly #freshMs: number;
  readonly #now: () => number;

  constructor(maxBytes: number, freshMs: number, now: () => number = Date.now) {
    this.#kept = new LRUCache({ maxSize: maxBytes });
    this.#freshMs = freshMs;
    this.#now = now;
  }

  async get(key: string, read: () => Promise<T>, { mark, freshMs, failedMs = 0 }: Wanted<T> = {}): Promise<T> {
    const known = this.#kept.get(key);
    if (known?.mark === mark && known !== undefined) {
      const keptMs = known.hasFailed === true ? failedMs : (freshMs?.(known.value) ?? this.#freshMs);
      if (this.#now() - known.at < keptMs) return await known.answer;
    }
    // Taken before the question: a change during the answer counts as not seen.
    const asking: Kept<T> = { at: this.#now(), mark, answer: read() };
    this.#kept.set(key, asking, { size: LEAST_BYTES });
    asking.answer.then(
      (value) => {
        asking.value = value;
        // One that was asked for anew, or forgotten meanwhile, is not kept.
        if (this.#kept.peek(key) !== asking) return;
        const size = Math.min(LEAST_BYTES + weightOf(value), this.#kept.maxSize);
        // What is set again keeps its size.
        this.#kept.delete(key);
        this.#kept.set(key, asking, { size });
      },
      () => {
        asking.at = this.#now();
        asking.hasFailed = true;
      },
    );
    return await asking.answer;
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }
}

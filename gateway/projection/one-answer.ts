/** Holds one answer for all who ask within a moment: it is asked for once, and one that fails is not kept. */
import { LRUCache } from 'lru-cache';

interface Kept<T> {
  readonly at: number;
  readonly mark: unknown;
  readonly answer: Promise<T>;
}

export class OneAnswer<T> {
  readonly #kept: LRUCache<string, Kept<T>>;
  readonly #freshMs: number;
  readonly #now: () => number;

  /** @param max answers that are kept; `freshMs`: for how long */
  constructor(max: number, freshMs: number, now: () => number = Date.now) {
    this.#kept = new LRUCache({ max });
    this.#freshMs = freshMs;
    this.#now = now;
  }

  /** @param mark of what is asked for: an answer of another mark is old */
  async get(key: string, read: () => Promise<T>, mark?: unknown): Promise<T> {
    const known = this.#kept.get(key);
    if (known !== undefined && known.mark === mark && this.#now() - known.at < this.#freshMs) return await known.answer;
    const asking = { at: this.#now(), mark, answer: read() };
    this.#kept.set(key, asking);
    asking.answer.catch(() => {
      if (this.#kept.get(key) === asking) this.#kept.delete(key);
    });
    return await asking.answer;
  }

  forget(key: string): void {
    this.#kept.delete(key);
  }
}

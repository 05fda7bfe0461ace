/**
 * Holds one answer for all who ask within a moment: it is asked for once. Memory is bounded, by an estimate of bytes
 * (`weight.ts`); what was asked for longest ago goes first.
 */
import { LRUCache } from 'lru-cache';
import { weightOf } from './weight.ts';

interface Kept<T> {
  /** Time from which it counts. */
  at: number;
  readonly mark: unknown;
  readonly answer: Promise<T>;
  value?: T;
  hasFailed?: true;
}

interface Wanted<T> {
  /** State of what is asked for: an answer of another mark is old. */
  readonly mark?: unknown;
  /** Time for which an answer is kept; the answer is undefined while it is under way. */
  readonly freshMs?: (answer: T | undefined) => number;
  /** Time for which a failure is told again; default: it is asked anew. */
  readonly failedMs?: number;
}

interface Options {
  readonly now?: (() => number) | undefined;
  /**
   * From when an answer is fresh. Default: its question, so that a change during the answer counts as not seen. From
   * the answer on, a slow one serves others too, and all who ask while it is under way: its mark tells of changes.
   */
  readonly since?: 'question' | 'answer';
}

const LEAST_BYTES = 1_024;

export class OneAnswer<T> {
  readonly #kept: LRUCache<string, Kept<T>>;
  readonly #freshMs: number;
  readonly #now: () => number;
  readonly #isSinceAnswer: boolean;

  constructor(maxBytes: number, freshMs: number, { now = Date.now, since = 'question' }: Options = {}) {
    this.#kept = new LRUCache({ maxSize: maxBytes });
    this.#freshMs = freshMs;
    this.#now = now;
    this.#isSinceAnswer = since === 'answer';
  }

  /** @param read is given the answer that it replaces */
  async get(
    key: string,
    read: (before: T | undefined) => Promise<T>,
    { mark, freshMs, failedMs = 0 }: Wanted<T> = {},
  ): Promise<T> {
    const known = this.#kept.get(key);
    if (known?.mark === mark && known !== undefined) {
      const keptMs = known.hasFailed === true ? failedMs : (freshMs?.(known.value) ?? this.#freshMs);
      const isUnderWay = this.#isSinceAnswer && known.value === undefined && known.hasFailed !== true;
      if (isUnderWay || this.#now() - known.at < keptMs) return await known.answer;
    }
    const asking: Kept<T> = { at: this.#now(), mark, answer: read(known?.value) };
    this.#kept.set(key, asking, { size: LEAST_BYTES });
    asking.answer.then(
      (value) => {
        asking.value = value;
        if (this.#isSinceAnswer) asking.at = this.#now();
        // One that was asked for anew, or forgotten meanwhile, is not kept.
        if (this.#kept.peek(key) !== asking) return;
        const size = Math.min(LEAST_BYTES + weightOf(value), this.#kept.maxSize);
        // An entry that is set again would keep its size.
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

/** Stretches of bytes: where they are, joined where they overlap, and found again in what the bytes were made of. */

/** Half open: `end` is the first position after it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** In order, and none overlaps another. */
export function united(spans: readonly Span[]): Span[] {
  const sorted = spans.toSorted((one, other) => one.start - other.start || one.end - other.end);
  const merged: Span[] = [];
  for (const span of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && span.start < last.end)
      merged[merged.length - 1] = { start: last.start, end: Math.max(last.end, span.end) };
    else merged.push(span);
  }
  return merged;
}

/** Bytes that were made of other bytes. */
export interface Derived {
  readonly bytes: Uint8Array;
  /** Spans of these bytes, united, as spans of what they were made of. */
  locate(spans: readonly Span[]): Span[];
}

/** From the last byte to the first. */
export function backwards(bytes: Uint8Array): Derived {
  return {
    bytes: bytes.toReversed(),
    locate: (spans) => spans.map(({ start, end }) => ({ start: bytes.length - end, end: bytes.length - start })),
  };
}

/** What was made of what was made: `inner` of the bytes of `outer`. */
export function through(outer: Derived, inner: Derived): Derived {
  return { bytes: inner.bytes, locate: (spans) => outer.locate(united(inner.locate(spans))) };
}

/**
 * Follows a derivation while it is made once more, and notes where each wanted span comes from. Nothing is held for bytes in
 * which nothing was found, so that a search takes no memory for maps.
 */
export class Watch {
  readonly located: Span[] = [];
  readonly #spans: readonly Span[];
  #next = 0;
  #start = 0;

  /** @param spans of the derived bytes, united */
  constructor(spans: readonly Span[]) {
    this.#spans = spans;
  }

  /** The derived bytes from `at` on, so many of them, come from the span of these two positions. */
  saw(at: number, count: number, start: number, end: number): void {
    for (;;) {
      const span = this.#spans[this.#next];
      if (span === undefined || span.start >= at + count) return;
      if (span.start >= at) this.#start = start;
      if (span.end > at + count) return;
      this.located.push({ start: this.#start, end });
      this.#next += 1;
    }
  }
}

// What a search may cost: linear in what is searched, whatever somebody wrote into it.

/** Thrown and caught by the search alone. */
export class TooMuchEffort extends Error {}

export class Effort {
  #spent = 0;
  readonly #most: number;

  constructor(most = Infinity) {
    this.#most = most;
  }

  /** Bytes that were read, compared or written. */
  get spent(): number {
    return this.#spent;
  }

  spend(bytes: number): void {
    this.#spent += bytes;
    if (this.#spent > this.#most) throw new TooMuchEffort('more effort than the size of the text allows');
  }
}

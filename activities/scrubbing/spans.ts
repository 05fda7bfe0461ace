/**
 * Handles stretches of bytes: it joins overlapping ones, maps them back to the bytes they were derived from, and bounds
 * the effort of a search.
 */

/** A half-open stretch: `end` is the first position after it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Returns spans in order, none overlapping another. */
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

/** Bytes that were derived from other bytes. */
export interface Derived {
  readonly bytes: Uint8Array;
  /** Maps united spans of these bytes to spans of the source bytes. */
  locate(spans: readonly Span[]): Span[];
}

/**
 * Derives bytes by a reading that can be repeated.
 * @param most bytes that the reading makes at most
 * @param read writes what it makes and returns its length; it tells a watch where each byte comes from
 */
export function derived(most: number, read: (made: Uint8Array, watch?: Watch) => number): Derived {
  const made = new Uint8Array(most);
  const length = read(made);
  return {
    bytes: made.subarray(0, length),
    locate: (spans) => {
      const watch = new Watch(spans);
      read(made, watch);
      return watch.located;
    },
  };
}

export function backwards(bytes: Uint8Array): Derived {
  return {
    bytes: bytes.toReversed(),
    locate: (spans) => spans.map(({ start, end }) => ({ start: bytes.length - end, end: bytes.length - start })),
  };
}

export function through(outer: Derived, inner: Derived): Derived {
  return { bytes: inner.bytes, locate: (spans) => outer.locate(united(inner.locate(spans))) };
}

/**
 * Follows a derivation while it is repeated, and notes the source of each wanted span. Nothing is kept for bytes
 * without a find, so a search takes no memory for maps.
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

  /** Notes that `count` derived bytes from `at` on come from the source span `start` to `end`. */
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

// The effort of a search is linear in the searched bytes, whatever somebody wrote into them.

/** Thrown and caught by the search alone. */
export class TooMuchEffort extends Error {}

export class Effort {
  /** Bytes that were read, compared or written. */
  spent = 0;
  readonly #most: number;

  constructor(most = Infinity) {
    this.#most = most;
  }

  spend(bytes: number): void {
    this.spent += bytes;
    if (this.spent > this.#most) throw new TooMuchEffort('more effort than the size of the text allows');
  }
}

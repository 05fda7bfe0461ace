/**
 * Who waits for a server, and how long it may be until there is room.
 *
 * Owns guesses: a call that is told too little comes back and is told again. Nobody is let in by it (`server-limits.ts`).
 *
 * 1. Whoever does not come back is forgotten.
 */

/** No worker asks the same call more often than that, and none leaves it alone for longer. */
const SHORTEST_MS = 100;
const LONGEST_MS = 30_000;
/** Calls that come back for nothing come more and more rarely: each time stands in the run's history. */
const RAREST_MS = 10_000;
/** How late who waits may be. */
const LATE_MS = 5_000;
/** Of what is added so that those who wait do not come back together. */
const SPREAD = 0.25;
const WIDEST_MS = 10_000;
/** Of the latest call in the mean. */
const WEIGHT = 0.2;
const MOST_WAITING = 10_000;

export class Line {
  /** Key of a call → when it comes back, epoch ms. */
  readonly #waiting = new Map<string, number>();
  /** Of a call; the first guess is a second. */
  #meanMs = 1_000;

  /** A call was under way for so long. */
  took(ms: number): void {
    this.#meanMs += WEIGHT * (ms - this.#meanMs);
  }

  leave(key: string): void {
    this.#waiting.delete(key);
  }

  /** Others who wait. */
  ahead(key: string, now: number): number {
    for (const [other, due] of this.#waiting) if (due + LATE_MS < now) this.#waiting.delete(other);
    return this.#waiting.size - (this.#waiting.has(key) ? 1 : 0);
  }

  /** Until a place is free, behind those who wait. @param places all of them, which are taken */
  untilFree(key: string, places: number, now: number): number {
    return Math.min(LONGEST_MS, (this.#meanMs * (this.ahead(key, now) + 1)) / places);
  }

  /** Notes that it waits. @param random from 0 up to 1 @returns for how long, ms */
  wait(key: string, ms: number, attempt: number, now: number, random: number): number {
    const atLeast = Math.max(ms, Math.min(RAREST_MS, SHORTEST_MS * 2 ** Math.min(attempt - 1, 20)));
    const wait = Math.ceil(atLeast + random * Math.min(WIDEST_MS, atLeast * SPREAD));
    // What does not fit is only not counted.
    if (this.#waiting.size < MOST_WAITING || this.#waiting.has(key)) this.#waiting.set(key, now + wait);
    return wait;
  }
}

/**
 * Estimates how long a call that waits for a server should stay away.
 *
 * It owns estimates only: a call that is told too little comes back and is told again. `server-limits.ts` decides who
 * may enter.
 * 1. A call that does not come back is forgotten.
 */

/** No worker repeats the same call sooner than the shortest time, or leaves it alone for longer than the longest. */
const SHORTEST_MS = 100;
const LONGEST_MS = 30_000;
/** Calls that come back in vain come more and more rarely, because each return is in the run's history. */
const RAREST_MS = 10_000;
/** How late a waiting call may come back, in ms. */
const LATE_MS = 5_000;
/** Share of the wait that is added at random, so that waiting calls do not come back together. */
const SPREAD = 0.25;
const WIDEST_MS = 10_000;
/** Weight of the latest call in the mean. */
const WEIGHT = 0.2;
const MOST_WAITING = 10_000;

export class Line {
  /** Key of a call → when it comes back, epoch ms. */
  readonly #waiting = new Map<string, number>();
  /** Mean duration of a call; the first guess is a second. */
  #meanMs = 1_000;

  /** Adds the duration of a finished call. */
  took(ms: number): void {
    this.#meanMs += WEIGHT * (ms - this.#meanMs);
  }

  leave(key: string): void {
    this.#waiting.delete(key);
  }

  /** Counts the other calls that wait. */
  ahead(key: string, now: number): number {
    for (const [other, due] of this.#waiting) if (due + LATE_MS < now) this.#waiting.delete(other);
    return this.#waiting.size - (this.#waiting.has(key) ? 1 : 0);
  }

  /**
   * Estimates the time in ms until a place is free, behind the calls that wait.
   * @param places all places of the server, which are taken
   */
  untilFree(key: string, places: number, now: number): number {
    return Math.min(LONGEST_MS, (this.#meanMs * (this.ahead(key, now) + 1)) / places);
  }

  /**
   * Notes that the call waits.
   * @param random from 0 up to 1
   * @returns how long it should wait, in ms
   */
  wait(key: string, ms: number, attempt: number, now: number, random: number): number {
    const atLeast = Math.max(ms, Math.min(RAREST_MS, SHORTEST_MS * 2 ** Math.min(attempt - 1, 20)));
    const wait = Math.ceil(atLeast + random * Math.min(WIDEST_MS, atLeast * SPREAD));
    // A call that does not fit is only not counted.
    if (this.#waiting.size < MOST_WAITING || this.#waiting.has(key)) this.#waiting.set(key, now + wait);
    return wait;
  }
}

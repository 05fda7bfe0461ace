/** Sends the heartbeats of one activity, on a timer and on progress, but never so often that they become the work. */

const LONGEST_INTERVAL_MS = 10_000;
const SHORTEST_INTERVAL_MS = 1_000;

export class Heartbeat {
  readonly #beat: () => void;
  readonly #timer: NodeJS.Timeout;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** @param timeoutMs the activity's heartbeat timeout; a third of it leaves room for two lost beats. */
  constructor(beat: () => void, timeoutMs: number | undefined) {
    this.#beat = beat;
    this.#timer = setInterval(
      () => this.#now(),
      Math.min(LONGEST_INTERVAL_MS, (timeoutMs ?? Number.POSITIVE_INFINITY) / 3),
    );
    this.#now();
  }

  progressed(): void {
    if (performance.now() - this.#lastMs >= SHORTEST_INTERVAL_MS) this.#now();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #now(): void {
    this.#lastMs = performance.now();
    this.#beat();
  }
}

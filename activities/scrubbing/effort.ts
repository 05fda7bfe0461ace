/** What a search may cost: linear in what is searched, whatever somebody wrote into it. */

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

/** What was started, to be ended in the opposite order, whatever happens on the way. */

interface Part {
  readonly name: string;
  /** Settles when it ends by itself. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

export class Stack {
  readonly #parts: Part[] = [];

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  async start<T>(
    name: string,
    make: () => Promise<T>,
    ended: (made: T) => Promise<void>,
    stop: (made: T) => Promise<void>,
  ): Promise<T> {
    const made = await make();
    this.#parts.push({ name, ended: ended(made), stop: () => stop(made) });
    return made;
  }

  /** The name of the first part that ends by itself; rejects with its error where it fails. */
  async firstEnded(): Promise<string> {
    return await Promise.race(this.#parts.map(async ({ name, ended }) => (await ended, name)));
  }

  /** Never throws: one part that does not end well must not keep the others alive. */
  async stop(): Promise<readonly string[]> {
    const troubles: string[] = [];
    for (const { name, stop } of this.#parts.splice(0).toReversed()) {
      await stop().catch((error: unknown) =>
        troubles.push(`${name}: ${error instanceof Error ? error.message : String(error)}`),
      );
    }
    return troubles;
  }
}

/** Answers that wait for the test, by the purpose of their call: they come when the test says so, never after a time. */
import { until } from '../until.ts';

/** A busy machine takes long for many calls at once. Shorter than a test may take, so that the failure says what was missing. */
const HELD_MS = 55_000;

export class Holds {
  readonly #held: { readonly purpose: string; readonly answer: () => void; waits: boolean }[] = [];
  readonly #released = new Set<string>();

  /** Answers once `release` lets this purpose go, or at once if it has. */
  hold(answer: () => void, purpose = ''): void {
    if (this.#released.has(purpose)) answer();
    else this.#held.push({ purpose, answer, waits: true });
  }

  /** Waits until this many answers of this purpose have been held. */
  async held(purpose = '', count = 1): Promise<void> {
    const isHeld = () => this.#held.filter((hold) => hold.purpose === purpose).length >= count || undefined;
    await until(isHeld, { what: `${count} held calls of ${purpose}`, withinMs: HELD_MS });
  }

  /** Answers what is held for this purpose, or all; later answers of the purpose do not wait. */
  release(purpose?: string): void {
    if (purpose !== undefined) this.#released.add(purpose);
    for (const hold of this.#held) {
      if (!hold.waits || (purpose !== undefined && hold.purpose !== purpose)) continue;
      hold.waits = false;
      hold.answer();
    }
  }
}

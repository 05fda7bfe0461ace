/**
 * Logs the life of a worker: its start and settings, its stop and the reason, its end and how long the stop
 * took.
 */
import { codedFailureIn } from '../contracts/failure.ts';
import type { Log } from './log.ts';

type Fields = Readonly<Record<string, unknown>>;

export class Diary {
  readonly #log: Log | undefined;
  readonly #worker: Fields;
  readonly #startedAt = performance.now();
  #stopping: { readonly why: string; readonly at: number } | undefined;

  /** @param worker describes what it serves, and as which build */
  constructor(log: Log | undefined, worker: Fields) {
    this.#log = log;
    this.#worker = worker;
    log?.info('The worker has started.', worker);
  }

  stops(why: string): void {
    if (this.#stopping !== undefined) return;
    this.#stopping = { why, at: performance.now() };
    this.#log?.info('The worker stops: what is under way gets its time.', { ...this.#worker, why });
  }

  /** Returns the same promise, whose end is logged. */
  async followed(ended: Promise<void>): Promise<void> {
    try {
      await ended;
    } catch (error) {
      this.#log?.error('The worker has failed.', {
        ...this.#worker,
        ...this.#times(),
        why: codedFailureIn(error)?.code ?? 'it failed by itself',
        error,
      });
      throw error;
    }
    this.#log?.info('The worker has stopped.', {
      ...this.#worker,
      ...this.#times(),
      why: this.#stopping?.why ?? 'it ended by itself',
    });
  }

  #times(): Fields {
    const now = performance.now();
    return {
      upSeconds: Math.round((now - this.#startedAt) / 1_000),
      ...(this.#stopping && { stoppingMs: Math.round(now - this.#stopping.at) }),
    };
  }
}

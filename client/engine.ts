/** The client's way to Temporal: every call has a deadline, every failure a code. */
import type { Client } from '@temporalio/client';
import { Lanes } from './lanes.ts';
import { troubleOf } from './trouble.ts';

export class Engine {
  readonly client: Client;
  readonly #deadlineMs: number;
  readonly #lanes = new Lanes();

  constructor(client: Client, deadlineMs: number) {
    this.client = client;
    this.#deadlineMs = deadlineMs;
  }

  get namespace(): string {
    return this.client.options.namespace;
  }

  /** An update: waits for its turn, within its deadline. @throws CountersignError */
  async update<T>(runId: string, act: () => Promise<T>): Promise<T> {
    const end = Date.now() + this.#deadlineMs;
    return await this.#lanes.run(runId, async () => await this.call(runId, act, Math.max(1, end - Date.now())));
  }

  /** @throws CountersignError */
  async call<T>(runId: string, act: () => Promise<T>, deadlineMs = this.#deadlineMs): Promise<T> {
    try {
      return await this.client.connection.withDeadline(Date.now() + deadlineMs, act);
    } catch (error) {
      throw troubleOf(error, runId);
    }
  }
}

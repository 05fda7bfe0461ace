/** The client's way to Temporal: every call has a deadline, every failure a code. */
import type { Client } from '@temporalio/client';
import { troubleOf } from './trouble.ts';

export class Engine {
  readonly client: Client;
  readonly #deadlineMs: number;

  constructor(client: Client, deadlineMs: number) {
    this.client = client;
    this.#deadlineMs = deadlineMs;
  }

  get namespace(): string {
    return this.client.options.namespace;
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

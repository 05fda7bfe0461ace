/**
 * Bounds the requests that wait for the end of something, of each person too: each of them holds a connection, and a poll
 * of Temporal that lasts as long as it may, also when nobody listens any more.
 */
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { tooMany } from './problem.ts';

export class Waiters {
  readonly #limits: Pick<GatewayConfig['limits'], 'streams' | 'streamsPerPerson'>;
  readonly #ofPerson = new Map<string, number>();
  #all = 0;

  constructor(limits: Pick<GatewayConfig['limits'], 'streams' | 'streamsPerPerson'>) {
    this.#limits = limits;
  }

  /** @throws CountersignError `RATE_LIMITED`, before anything is asked */
  async hold<T>(person: string, wait: () => Promise<T>): Promise<T> {
    const { streams, streamsPerPerson } = this.#limits;
    const own = this.#ofPerson.get(person) ?? 0;
    if (this.#all >= streams) throw tooMany(`${streams} requests that wait`);
    if (own >= streamsPerPerson) throw tooMany(`${streamsPerPerson} requests of one person that wait`);
    this.#all += 1;
    this.#ofPerson.set(person, own + 1);
    try {
      return await wait();
    } finally {
      this.#all -= 1;
      const left = (this.#ofPerson.get(person) ?? 1) - 1;
      if (left === 0) this.#ofPerson.delete(person);
      else this.#ofPerson.set(person, left);
    }
  }
}

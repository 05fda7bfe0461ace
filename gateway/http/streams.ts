/**
 * Keeps within bounds what holds a connection: event streams (server-sent events, WHATWG HTML §9.2), and requests that
 * wait for the end of something, each with a poll of Temporal that lasts as long as it may, also when nobody listens
 * any more.
 *
 * 1. The number of both is bounded, for each person too.
 * 2. A reader that falls behind is waited for (`ready`). Events that cannot wait let it go above a bound, and so does a
 *    reader that takes nothing for some time; it resumes by `Last-Event-ID`.
 * 3. A stream ends with the token that opened it.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { tooMany } from './problem.ts';

const HEARTBEAT_MS = 15_000;
const MOST_WAITING_BYTES = 1_048_576;
const RETRY_MS = 2_000;

type Limits = Pick<GatewayConfig['limits'], 'streams' | 'streamsPerPerson'>;

/** Places for those who wait: the number of all is bounded, and that of each person. */
export class Waiters {
  readonly #limits: Limits;
  readonly #ofPerson = new Map<string, number>();
  #all = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** @throws CountersignError `RATE_LIMITED`, before anything is asked */
  async hold<T>(person: string, wait: () => Promise<T>): Promise<T> {
    const leave = this.take(person, 'requests that wait', 'requests of one person that wait');
    try {
      return await wait();
    } finally {
      leave();
    }
  }

  /** @returns how to give the place back */
  take(person: string, all: string, ofOnePerson: string): () => void {
    const { streams, streamsPerPerson } = this.#limits;
    const own = this.#ofPerson.get(person) ?? 0;
    if (this.#all >= streams) throw tooMany(`${streams} ${all}`);
    if (own >= streamsPerPerson) throw tooMany(`${streamsPerPerson} ${ofOnePerson}`);
    this.#all += 1;
    this.#ofPerson.set(person, own + 1);
    return () => {
      this.#all -= 1;
      const left = (this.#ofPerson.get(person) ?? 1) - 1;
      if (left === 0) this.#ofPerson.delete(person);
      else this.#ofPerson.set(person, left);
    };
  }
}

export interface Stream {
  /** Sends an event; does nothing after the end. */
  send(event: string, id: string | undefined, data: unknown): void;
  /** Resolves when the reader has taken nearly all of what was sent, or when the stream has ended. */
  ready(): Promise<void>;
  /** Ends the stream; the reader comes back and resumes. */
  end(): void;
  /** Aborted when the stream has ended, for whatever reason. */
  readonly ended: AbortSignal;
}

export interface Opening {
  readonly person: string;
  /** Epoch ms. */
  readonly until: number;
  readonly headers: Readonly<Record<string, string>>;
}

export class Streams {
  readonly #places: Waiters;
  readonly #open = new Set<Stream>();

  constructor(limits: Limits) {
    this.#places = new Waiters(limits);
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Returns a stream that has ended already if its reader is gone.
   * @throws CountersignError `RATE_LIMITED`, before anything is written
   */
  open(response: ServerResponse, { person, until, headers }: Opening): Stream {
    const leave = this.#places.take(person, 'event streams', 'event streams of one person');
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Nginx would hold events back.
      'x-accel-buffering': 'no',
    });
    response.write(`retry: ${RETRY_MS}\n\n`);
    const over = new AbortController();
    const write = (text: string): void => {
      if (response.writableEnded || response.destroyed) return;
      // One event may be larger than the bound, so what waited before it counts.
      if (response.writableLength > MOST_WAITING_BYTES) response.destroy();
      else response.write(text);
    };
    // A connection that breaks is told by `close`.
    response.on('error', () => undefined);
    let wasBehind = false;
    const heartbeat = setInterval(() => {
      const isBehind = response.writableNeedDrain || response.writableEnded;
      if (isBehind && wasBehind) response.destroy();
      else write(': still here\n\n');
      wasBehind = isBehind;
    }, HEARTBEAT_MS);
    // A longer timer would overflow and end the stream at once.
    const expiry = setTimeout(() => response.end(), Math.min(Math.max(0, until - Date.now()), 2_147_483_647));
    const stream: Stream = {
      send: (event, id, data) =>
        write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`),
      ready: async () => {
        if (response.writableNeedDrain && !response.writableEnded)
          await once(response, 'drain', { signal: over.signal }).catch(() => undefined);
      },
      end: () => void response.end(),
      ended: over.signal,
    };
    this.#open.add(stream);
    const release = (): void => {
      if (over.signal.aborted) return;
      clearInterval(heartbeat);
      clearTimeout(expiry);
      this.#open.delete(stream);
      leave();
      over.abort();
    };
    response.once('close', release);
    // The reader may be gone already, and a connection tells its end once.
    if (response.destroyed || response.closed) release();
    return stream;
  }

  close(): void {
    for (const stream of this.#open) stream.end();
  }
}

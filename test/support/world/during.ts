/**
 * Makes what the tests of a file or group share before them, and ends it after them, last made first. It has its name
 * from the start, so that tests and what they call need no variable that is set later.
 */
import { afterAll, beforeAll } from '@jest/globals';

type Ended = { stop(): unknown } | { close(): unknown };

/** Starts of servers and workers, on a busy machine. */
const START_MS = 240_000;

const ends: (() => unknown)[] = [];

/** Stands for what `make` returns, which ends by its own word. */
export function during<T extends Ended>(make: () => T | Promise<T>, withinMs?: number): T {
  return beforehand(make, (it: Ended) => ('stop' in it ? it.stop() : it.close()), withinMs);
}

/** Stands for what `make` returns. */
export function beforehand<T extends object>(
  make: () => T | Promise<T>,
  end: (it: T) => unknown = () => undefined,
  withinMs = START_MS,
): T {
  let it: T | undefined;
  beforeAll(async () => {
    const fresh = await make();
    it = fresh;
    ends.push(() => end(fresh));
  }, withinMs);
  afterAll(async () => {
    if (it !== undefined) await ends.pop()?.();
  }, withinMs);
  return standIn(() => it);
}

/** Stands for parts of what another stands for. */
export function partsOf<T extends object, Key extends keyof T>(whole: T, ...keys: readonly Key[]): Pick<T, Key> {
  // Sound: only parts that are objects are asked for.
  const stood = keys.map((key) => [key, standIn(() => whole[key] as object)] as const);
  // Sound: each stands in its place.
  return Object.fromEntries(stood) as Pick<T, Key>;
}

function standIn<T extends object>(current: () => T | undefined): T {
  const now = (): T => {
    const it = current();
    if (it === undefined) throw new Error('it is made before the tests: only they, and what they call, may use it');
    return it;
  };
  const handler: ProxyHandler<T> = {
    get: (_, key) => {
      const value: unknown = Reflect.get(now(), key);
      if (typeof value !== 'function') return value;
      // A private field is found in the object itself alone.
      const bound: unknown = value.bind(now());
      return bound;
    },
    set: (_, key, value) => Reflect.set(now(), key, value),
    has: (_, key) => Reflect.has(now(), key),
    ownKeys: () => Reflect.ownKeys(now()),
    getOwnPropertyDescriptor: (_, key) => Reflect.getOwnPropertyDescriptor(now(), key),
  };
  // Sound: each question to it is put to what it stands for.
  return new Proxy({}, handler) as T;
}

/** Stack starts the parts of `countersign dev` and stops them in the opposite order, even if some of them fail. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { freePort } from '../../workers/dev-server.ts';

interface Part {
  readonly name: string;
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

export class Stack {
  readonly #parts: Part[] = [];
  readonly #asked: AbortSignal;

  /** @param asked aborted once nothing more is to be started */
  constructor(asked: AbortSignal) {
    this.#asked = asked;
  }

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  /**
   * @param ended settles when the part ends by itself; without it, the part ends with the process alone
   * @throws the reason of `asked`
   */
  async start<T extends { stop(): Promise<void> } | undefined>(
    name: string,
    make: () => Promise<T>,
    ended: (made: T) => Promise<void> = async () => new Promise<void>(() => undefined),
  ): Promise<T> {
    const made = await make();
    this.#parts.push({ name, ended: ended(made), stop: async () => made?.stop() });
    this.#asked.throwIfAborted();
    return made;
  }

  async firstEnded(): Promise<string> {
    return await Promise.race(this.#parts.map(async ({ name, ended }) => (await ended, name)));
  }

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

/** Checks that a port is free before anything starts, since a foreign server there would be taken for ours. */
export async function choosePort(port: number, option: string, what: string): Promise<number> {
  if (port === 0) return await freePort();
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (error) {
    const code = nodeCodeOf(error) ?? 'error';
    const reason = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${code})`;
    const message = `Port ${port}, for ${what}, ${reason}. End what listens there, or choose another port with ${option} (0: any that is free).`;
    throw new CountersignError('ENGINE_UNAVAILABLE', message, { port, option }, { cause: error });
  }
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Serves the gate to one program that starts it and speaks over its standard input and output.
 *
 * 1. An outcome counts as delivered once its answer is written. A program that ends before has not got it.
 */
import { Transform, type TransformCallback } from 'node:stream';
import type { JSONRPCMessage } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import type { Caller } from './calls.ts';
import { createGateServer, type McpParts } from './mcp-server.ts';
import { notAsWritten } from './replies.ts';

export interface StdioOptions {
  readonly caller: Caller;
  /** The one server that is offered; absent: all. */
  readonly server?: string | undefined;
}

/** @returns once the program has closed the connection, or `stopped` is aborted */
export async function serveGateOnStdio(
  parts: McpParts,
  { caller, server }: StdioOptions,
  stopped: AbortSignal,
): Promise<void> {
  const { stdin, stdout } = process;
  const messages = new MessagesAsWritten((answer) => void stdout.write(`${JSON.stringify(answer)}\n`));
  const transport = new Telling(stdin.pipe(messages), stdout);
  const closed = new AbortController();
  const gone = AbortSignal.any([closed.signal, stopped]);
  const handle = serveStdio(
    ({ era }) =>
      createGateServer(
        parts,
        {
          caller: { ...caller, server },
          gone,
          left: closed.signal,
          deliveryOf: async (id) => await transport.deliveryOf(id),
        },
        era,
      ),
    { transport },
  );
  const over = new Promise<void>((resolve) => {
    stopped.addEventListener('abort', () => resolve(), { once: true });
    messages.once('close', resolve).once('end', resolve);
    const end = (): void => void messages.end();
    stdin.once('close', end).once('error', end);
  });
  await over;
  closed.abort();
  transport.lose();
  await handle.close();
}

/** The limit of one message; the transport refuses a longer one, which is handed on for that. */
const MOST_BYTES = 16_777_216;

/** Hands messages on, one a line; those with a number that would be read as another one are answered instead. */
export class MessagesAsWritten extends Transform {
  readonly #answer: (answer: object) => void;
  #begun: Buffer[] = [];
  #bytes = 0;

  constructor(answer: (answer: object) => void) {
    super();
    this.#answer = answer;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', from)) {
      this.#take(chunk.subarray(from, end + 1));
      from = end + 1;
      this.#hand();
    }
    this.#take(chunk.subarray(from));
    if (this.#bytes > MOST_BYTES) this.#hand();
    done();
  }

  #take(part: Buffer): void {
    this.#begun.push(part);
    this.#bytes += part.length;
  }

  #hand(): void {
    const line = Buffer.concat(this.#begun);
    this.#begun = [];
    this.#bytes = 0;
    const refused = notAsWritten(line.toString('utf8'));
    if (refused === undefined) this.push(line);
    else this.#answer(refused);
  }
}

/** Tells of each request when its answer is written. */
class Telling extends StdioServerTransport {
  readonly #waiting = new Map<string | number, (isDelivered: boolean) => void>();
  #isLost = false;

  async deliveryOf(requestId: string | number): Promise<boolean> {
    if (this.#isLost) return false;
    // A client that uses an id again before its answer loses the first request.
    this.#waiting.get(requestId)?.(false);
    return await new Promise<boolean>((resolve) => this.#waiting.set(requestId, resolve));
  }

  lose(): void {
    this.#isLost = true;
    for (const resolve of this.#waiting.values()) resolve(false);
    this.#waiting.clear();
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(message);
    if ('method' in message || message.id === undefined) return;
    this.#waiting.get(message.id)?.(true);
    this.#waiting.delete(message.id);
  }
}

/**
 * Serves the gate to one program that starts it and speaks over its standard input and output.
 *
 * 1. An outcome counts as delivered once its answer is written. A program that ends before has not got it.
 */
import type { JSONRPCMessage } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import type { Caller } from './calls.ts';
import { createGateServer, type McpParts } from './mcp-server.ts';

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
  const transport = new Telling();
  const closed = new AbortController();
  const gone = AbortSignal.any([closed.signal, stopped]);
  const handle = serveStdio(
    ({ era }) =>
      createGateServer(
        parts,
        { caller, server, gone, left: closed.signal, deliveryOf: async (id) => await transport.deliveryOf(id) },
        era,
      ),
    { transport },
  );
  const over = new Promise<void>((resolve) => {
    stopped.addEventListener('abort', () => resolve(), { once: true });
    process.stdin.once('close', resolve).once('end', resolve);
  });
  await over;
  closed.abort();
  transport.lose();
  await handle.close();
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

/** Starts an HTTP server on loopback, on a free port, and closes it when the test is over. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { toNodeHandler } from '@modelcontextprotocol/node';

export interface LoopbackServer {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** Closes existing connections and goes on listening. */
  disconnect(): void;
  /** Closes without waiting for any connection. */
  close(): Promise<void>;
}

export async function listenOnLoopback(listener: RequestListener): Promise<LoopbackServer> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  // Sound: a server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    disconnect: () => server.closeAllConnections(),
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Adapts an answer of the MCP SDK to Node's server. */
export function listenerOf(answer: ReturnType<typeof toNodeHandler>): RequestListener {
  return (request, response) => {
    // Sound: a request that a server was given has all that it reads; Node's types leave out what only clients lack.
    void answer(request as Parameters<typeof answer>[0], response);
  };
}

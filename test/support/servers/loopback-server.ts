/** Starts an HTTP server on this machine, and closes it when the test is over. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LoopbackServer {
  readonly port: number;
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** Number of connections so far. */
  connections(): number;
  /** Closes existing connections and goes on listening. */
  disconnect(): void;
  /** Closes without waiting for any connection. */
  close(): Promise<void>;
}

/** Listens on a free port of 127.0.0.1 and answers with an empty object, if nothing else is said. */
export async function listenOnLoopback(
  listener: RequestListener = (_request, response) => void response.end('{}'),
  { host = '127.0.0.1', port = 0 }: { readonly host?: string; readonly port?: number } = {},
): Promise<LoopbackServer> {
  let connections = 0;
  const server = createServer(listener).on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  // Sound: a listening TCP server has an address of this form.
  const at = server.address() as AddressInfo;
  return {
    port: at.port,
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${at.port}`,
    connections: () => connections,
    disconnect: () => server.closeAllConnections(),
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Reads a whole request. The promise never settles if the client leaves before the end. */
export async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('error', () => {});
  await new Promise((resolve) => request.on('end', resolve));
  return Buffer.concat(chunks).toString('utf8');
}

/** Counts connections to a server on this machine, and every attempt of this process to connect anywhere. */
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';

export interface CountingServer {
  readonly port: number;
  readonly origin: string;
  connections(): number;
  close(): Promise<void>;
}

export async function startCounting(
  answer: RequestListener = (_request, response) => void response.end('{}'),
  { host = '127.0.0.1', port = 0 } = {},
): Promise<CountingServer> {
  let connections = 0;
  const server = createServer(answer).on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  // Sound: a listening TCP server has an address of this form.
  const at = server.address() as AddressInfo;
  return {
    port: at.port,
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${at.port}`,
    connections: () => connections,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Records the addresses to which sockets of this process begin to connect. */
export function watchAttempts(): { readonly attempts: readonly string[]; stop(): void } {
  const attempts: string[] = [];
  const connect = Object.getOwnPropertyDescriptor(Socket.prototype, 'connect');
  if (connect === undefined) throw new Error('sockets do not connect any more');
  // Sound: it is the method that was found there.
  const original = connect.value as (this: Socket, ...args: unknown[]) => Socket;
  Object.defineProperty(Socket.prototype, 'connect', {
    ...connect,
    value(this: Socket, ...args: unknown[]) {
      this.on('connectionAttempt', (address: string) => attempts.push(address));
      return original.apply(this, args);
    },
  });
  return { attempts, stop: () => void Object.defineProperty(Socket.prototype, 'connect', connect) };
}

/**
 * Makes a TCP route to a server that a test can cut and restore: the server lives on, but cannot be reached.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export interface FaultRoute {
  /** URL of the server behind, with this route's own port. */
  readonly url: string;
  /** Refuses connections and resets the existing ones. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

export async function startFaultRoute(target: string): Promise<FaultRoute> {
  const to = new URL(target);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, other: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const listen = (port: number): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer((inner) => {
        const outer = connect(Number(to.port), to.hostname);
        keep(inner, outer);
        keep(outer, inner);
        inner.pipe(outer).pipe(inner);
      });
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => resolve(server));
    });
  let server = await listen(0);
  // Sound: a server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  };
  return {
    url: `http://127.0.0.1:${port}${to.pathname}`,
    cut,
    mend: async () => {
      server = await listen(port);
    },
    close: cut,
  };
}

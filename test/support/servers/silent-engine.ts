/** Listens on Temporal's port and accepts every call. It answers only the first call of each connection. */
import { once } from 'node:events';
import { createServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';

export interface SilentEngine {
  readonly address: string;
  /** Names of the methods that were called and wait. */
  readonly waiting: readonly string[];
  close(): Promise<void>;
}

/** A message without fields: flag and length of the gRPC framing, and nothing more. */
const EMPTY = Buffer.alloc(5);

export async function startSilentEngine(): Promise<SilentEngine> {
  const waiting: string[] = [];
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on('session', (session) => sessions.add(session));
  server.on('stream', (stream, { ':path': path = '' }) => {
    // A caller that gives up resets its stream.
    stream.on('error', () => undefined);
    const method = path.slice(path.lastIndexOf('/') + 1);
    if (method !== 'GetSystemInfo') return void waiting.push(method);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(EMPTY);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // Sound: a server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    waiting,
    close: async () => {
      for (const session of sessions) session.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

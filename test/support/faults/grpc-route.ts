/**
 * Makes a way to Temporal on which calls of some methods get lost, while all others go through: the call itself, or its
 * answer only. A way that is cut altogether is `FaultRoute`.
 */
import {
  type ClientHttp2Session,
  connect,
  constants,
  createServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';

/** What gets lost: Temporal never hears of the call, or does what it says and nobody is told. */
type Loss = 'call' | 'answer';

export interface GrpcRoute {
  /** Host and port. */
  readonly address: string;
  /** Loses calls of this method from now on, such as `RecordActivityTaskHeartbeat`. */
  lose(method: string, loss: Loss): void;
  close(): Promise<void>;
}

/** gRPC status of a server that cannot be reached. */
const UNAVAILABLE = '14';
/** Fields of HTTP/2 that name the other end of this connection, or that Node sets itself. */
const OWN_FIELDS = new Set<string>([constants.HTTP2_HEADER_AUTHORITY, constants.HTTP2_HEADER_STATUS]);

/** @param target host and port of Temporal */
export async function startGrpcRoute(target: string): Promise<GrpcRoute> {
  const lost = new Map<string, Loss>();
  const sessions = new Set<Http2Session>();
  const keep = (session: Http2Session): void => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session)).on('error', () => undefined);
  };
  const server = createServer().on('session', (session) => {
    keep(session);
    const onward = connect(`http://${target}`);
    keep(onward);
    session.on('close', () => onward.destroy());
    session.on('stream', (stream, headers) => {
      const method = headers[':path']?.split('/').at(-1) ?? '';
      const loss = lost.get(method);
      stream.on('error', () => undefined);
      if (loss === 'call') return refuse(stream);
      forward(stream, headers, onward, () => lost.has(method));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // Sound: a server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    lose: (method, loss) => void lost.set(method, loss),
    close: async () => await closed(server, sessions),
  };
}

async function closed(server: Http2Server, sessions: ReadonlySet<Http2Session>): Promise<void> {
  const over = new Promise((resolve) => server.close(resolve));
  for (const session of sessions) session.destroy();
  await over;
}

function refuse(stream: ServerHttp2Stream): void {
  if (stream.destroyed || stream.headersSent) return;
  stream.respond(
    { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': UNAVAILABLE },
    { endStream: true },
  );
}

function forward(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  onward: ClientHttp2Session,
  isLost: () => boolean,
): void {
  const kept = Object.entries(headers).filter(([name]) => !OWN_FIELDS.has(name));
  const request = onward.request(Object.fromEntries(kept));
  request.on('error', () => refuse(stream));
  stream.on('close', () => request.close());
  stream.pipe(request);
  let trailers: IncomingHttpHeaders = {};
  request.on('trailers', (last) => {
    trailers = last;
  });
  request.on('response', (answer) => {
    if (isLost() || stream.destroyed) return refuse(stream);
    const isOver = answer['grpc-status'] !== undefined;
    stream.respond(answer, isOver ? { endStream: true } : { waitForTrailers: true });
    if (isOver) return;
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    request.pipe(stream);
  });
}

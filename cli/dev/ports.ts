/** Ports of the embedded parts: known ones, so that addresses stay the same from day to day. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { CountersignError } from '../../contracts/errors.ts';
import { freePort } from '../../workers/free-port.ts';

interface Wanted {
  /** 0: any that is free. */
  readonly port: number;
  readonly option: string;
  readonly what: string;
}

/** Looked at before anything is started: a foreign server on a port would be taken for ours. */
export async function choosePort({ port, option, what }: Wanted): Promise<number> {
  if (port === 0) return await freePort();
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (error) {
    const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'error';
    const reason = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${code})`;
    throw new CountersignError(
      'ENGINE_UNAVAILABLE',
      `Port ${port}, for ${what}, ${reason}. End what listens there, or choose another port with ${option} (0: any that is free).`,
      { port, option },
      { cause: error },
    );
  }
  server.close();
  await once(server, 'close');
  return port;
}

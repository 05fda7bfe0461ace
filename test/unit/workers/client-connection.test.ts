/** A process outlives the calls that its connection leaves behind (INV-D3). */
import { createServer } from 'node:net';
import { once } from 'node:events';
import { expect, test } from '@jest/globals';
import { Connection } from '@temporalio/client';
import { withSafeRetries } from '../../../workers/connection.ts';

/** A server that hangs up on everyone, and says when. */
async function hangingUp() {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return { server, address: `127.0.0.1:${address.port}` };
}

test('a call that waits for its next attempt when the connection closes ends as cancelled, and no exception is left to nobody', async () => {
  const { server, address } = await hangingUp();
  const connection = Connection.lazy(withSafeRetries({ address }));
  const refused = once(server, 'connection');
  const call = connection.workflowService.getSystemInfo({});
  const settled = Promise.allSettled([call]);
  await refused;
  await connection.close();
  const [result] = await settled;
  server.close();
  expect(result).toMatchObject({ status: 'rejected', reason: { code: 1, details: 'The connection was closed.' } });
});

/** Where metrics of a process are read: an address that is taken, or none, is told with its path, before anything is served. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { installLog } from '../../../workers/log.ts';

test('an address that somebody else has', async () => {
  const other = createServer();
  other.listen(0, '127.0.0.1');
  await once(other, 'listening');
  // Sound: a server that listens on a port has an address with one.
  const { port } = other.address() as AddressInfo;
  expect(() => installLog(Config.parse({ metrics: { prometheus: `127.0.0.1:${port}` } }))).toThrow(
    expect.objectContaining({ code: 'CONFIG_INVALID', facts: { path: 'metrics.prometheus' } }),
  );
  other.close();
});

test.each(['localhost:9464', '127.0.0.1', ':9464', 'http://127.0.0.1:9464', '127.0.0.1:123456'])(
  '%s is no address',
  (prometheus) => {
    expect(Config.safeParse({ metrics: { prometheus } }).error?.issues[0]?.path).toEqual(['metrics', 'prometheus']);
  },
);

test('an address may be of either kind', () => {
  for (const prometheus of ['0.0.0.0:9464', '[::1]:9464'])
    expect(Config.parse({ metrics: { prometheus } }).metrics).toEqual({ prometheus });
});

/** A deadline may be longer than a timer of Node can be: a run that waits for people lasts for weeks. */
import { createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { asSeconds } from '../../../../cli/session/options.ts';
import { withSession } from '../../../../cli/session/session.ts';
import { plain, type Terminal } from '../../../../cli/session/terminal.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();
const closing: (() => void)[] = [];
afterEach(() => closing.splice(0).forEach((close) => close()));

/** The way to a Temporal on another machine takes a moment. */
const WAY_MS = 50;

/** Answers every call with an empty message (gRPC over HTTP/2). */
async function farTemporal(): Promise<string> {
  const temporal = createHttp2Server();
  temporal.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(Buffer.alloc(5));
  });
  const there = await listening(temporal);
  const way = createServer((near) => {
    const far = connect(there, '127.0.0.1');
    for (const socket of [near, far]) {
      socket.on('error', () => undefined);
      closing.push(() => socket.destroy());
    }
    void pause(WAY_MS).then(() => near.pipe(far).pipe(near));
  });
  return `127.0.0.1:${await listening(way)}`;
}

async function listening(server: Pick<Server, 'listen' | 'address' | 'close'>): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', () => resolve()));
  closing.push(() => server.close());
  // Sound: it listens at a port.
  return (server.address() as AddressInfo).port;
}

test.each(['10', '2592000', '999999999'])('with --deadline %s a Temporal that is there is reached', async (given) => {
  const terminal: Terminal = {
    env: {},
    directory: await folder(),
    paint: plain,
    out: () => undefined,
    err: () => undefined,
    input: async () => '',
    interrupted: () => new AbortController().signal,
  };
  const options = { address: await farTemporal(), namespace: 'default', deadline: asSeconds(given) };
  const deadlineMs = await withSession(terminal, options, async (session) => await Promise.resolve(session.deadlineMs));
  expect(deadlineMs).toBe(Number(given) * 1_000);
});

test.each(['1000000000', '1e12', 'Infinity', '0', '-1', '', ' ', 'x'])('%p is no deadline', (given) => {
  expect(() => asSeconds(given)).toThrow('at most 999999999');
});

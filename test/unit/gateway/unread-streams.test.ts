/** A reader of a real socket who reads nothing: what waits for them is bounded, they are let go, and others go on. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { type Stream, Streams } from '../../../gateway/http/streams.ts';
import { until } from '../../support/until.ts';

const EVENT = 'x'.repeat(65_536);
/** Above all that the system holds for a connection of this machine, and far above the bound. */
const MOST_BYTES = 64 * 1_048_576;
/** The bound of the gateway, and one event that came when it was not yet reached. */
const BOUND_BYTES = 1_048_576 + 2 * EVENT.length;

let streams: Streams;
let server: Server;
let sockets: Socket[];
let opened: { readonly path: string; readonly stream: Stream; readonly response: ServerResponse }[];

beforeEach(async () => {
  streams = new Streams({ streams: 10, streamsPerPerson: 10 });
  [sockets, opened] = [[], []];
  server = createServer((request, response) => {
    const stream = streams.open(response, { person: 'ann', until: Date.now() + 3_600_000, headers: {} });
    opened.push({ path: request.url ?? '', stream, response });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  jest.useRealTimers();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => void server.close(resolve));
});

/** Opens a stream over a socket of its own. @returns what the gateway has of it, and the bytes that were read */
async function reader(path: string, reads: boolean) {
  // Sound: a TCP server that listens has a port.
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  // The end of the connection is an error of one who still writes.
  socket.on('error', () => undefined);
  let bytes = 0;
  if (reads) socket.on('data', (chunk) => void (bytes += chunk.length));
  else socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nhost: gateway\r\n\r\n`);
  const open = await until(() => opened.find((each) => each.path === path), { what: `the stream ${path}` });
  return { ...open, read: () => bytes };
}

test('events that cannot wait let a reader go who reads nothing, with a bounded rest, and reach the others', async () => {
  const idle = await reader('/idle', false);
  const eager = await reader('/eager', true);
  expect(streams.size).toBe(2);
  let [sent, held] = [0, 0];
  while (!idle.stream.ended.aborted && sent < MOST_BYTES) {
    for (const { stream } of [idle, eager]) stream.send('change', undefined, EVENT);
    sent += EVENT.length;
    held = Math.max(held, idle.response.writableLength);
    // The others read as fast as they are told.
    await eager.stream.ready();
    await new Promise((resolve) => void setImmediate(resolve));
  }
  expect(sent).toBeLessThan(MOST_BYTES);
  expect(idle.stream.ended.aborted).toBe(true);
  expect(held).toBeGreaterThan(0);
  expect(held).toBeLessThanOrEqual(BOUND_BYTES);
  expect(idle.response.destroyed).toBe(true);
  expect(streams.size).toBe(1);
  // What is sent to one who is gone stays nowhere.
  idle.stream.send('change', undefined, EVENT);
  expect(idle.response.writableLength).toBe(0);
  expect(eager.stream.ended.aborted).toBe(false);
  eager.stream.send('change', undefined, EVENT);
  await until(() => eager.read() > sent + EVENT.length, { what: 'all events at the other reader' });
});

test('events that can wait do, and a reader who takes nothing for two heartbeats is let go', async () => {
  // The rest of time goes on: sockets need it.
  jest.useFakeTimers({
    doNotFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'nextTick', 'Date', 'performance'],
  });
  const idle = await reader('/idle', false);
  const eager = await reader('/eager', true);
  let sent = 0;
  while (!idle.response.writableNeedDrain && sent < MOST_BYTES) {
    idle.stream.send('entry', String(sent), EVENT);
    sent += EVENT.length;
    await new Promise((resolve) => void setImmediate(resolve));
  }
  const waiting = idle.stream.ready();
  expect(idle.response.writableLength).toBeLessThanOrEqual(BOUND_BYTES);
  for (let beats = 0; beats < 2; beats += 1) jest.advanceTimersByTime(15_000);
  await until(() => idle.stream.ended.aborted, { what: 'the end of the idle stream' });
  // Whoever waits to send goes on, and ends.
  await waiting;
  expect(streams.size).toBe(1);
  expect(eager.stream.ended.aborted).toBe(false);
  eager.stream.send('entry', '1', EVENT);
  await until(() => eager.read() > EVENT.length, { what: 'the event at the other reader' });
});

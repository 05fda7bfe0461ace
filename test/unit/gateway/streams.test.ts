/** Event streams over slow and broken connections. */
import { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { type Stream, Streams } from '../../../gateway/http/streams.ts';

const OPENING = { person: 'ann', headers: {} } as const;
const LIMITS = { streams: 2, streamsPerPerson: 2 };

/** A connection whose reader takes nothing: all that is written to it waits. */
function stalled(): Socket {
  const duplex = new Duplex({ read: () => undefined, write: () => undefined });
  // Sound: a response writes to it, and asks nothing of a network.
  return duplex as Socket;
}

interface Opened {
  readonly streams: Streams;
  readonly stream: Stream;
  readonly response: ServerResponse;
}

function answering(): ServerResponse {
  const socket = stalled();
  const response = new ServerResponse(new IncomingMessage(socket));
  response.assignSocket(socket);
  return response;
}

function open(until = Number.MAX_SAFE_INTEGER): Opened {
  const response = answering();
  const streams = new Streams(LIMITS);
  return { streams, stream: streams.open(response, { ...OPENING, until }), response };
}

const BIG = 'x'.repeat(700_000);

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

test.each<[string, (opened: Opened) => void]>([
  ['ended', ({ stream }) => stream.end()],
  ['closed with the gateway', ({ streams }) => streams.close()],
  ['at the end of its token', () => jest.advanceTimersByTime(1_000)],
])('a stream that is %s while its reader stalls takes no more, and breaks nothing', (_, end) => {
  const opened = open(Date.now() + 1_000);
  const written = jest.spyOn(opened.response, 'write');
  opened.stream.send('entry', '1', BIG);
  end(opened);
  expect(opened.response.writableEnded).toBe(true);
  written.mockClear();
  opened.stream.send('entry', '2', {});
  jest.advanceTimersByTime(15_000);
  expect(written).not.toHaveBeenCalled();
  // Its reader has had time enough.
  jest.advanceTimersByTime(30_000);
  expect(opened.response.destroyed).toBe(true);
});

test('an error of the connection has somebody who listens', () => {
  expect(open().response.listenerCount('error')).toBeGreaterThan(0);
});

test('a reader that takes nothing is let go after some time, or above the bound', () => {
  const patient = open();
  patient.stream.send('entry', '1', BIG);
  jest.advanceTimersByTime(15_000);
  expect(patient.response.destroyed).toBe(false);
  jest.advanceTimersByTime(15_000);
  expect(patient.response.destroyed).toBe(true);
  const crowded = open();
  for (const id of ['1', '2', '3']) crowded.stream.send('entry', id, BIG);
  expect(crowded.response.destroyed).toBe(true);
});

test('a stream is ready when its reader has taken what was sent, and when it has ended', async () => {
  const { stream, response } = open();
  stream.send('entry', '1', BIG);
  let isReady = false;
  const ready = stream.ready().then(() => (isReady = true));
  await Promise.resolve();
  expect(isReady).toBe(false);
  response.emit('drain');
  await ready;
  const ended = stream.ready();
  response.emit('close');
  await ended;
  expect(stream.ended.aborted).toBe(true);
});

test.each<[string, (response: ServerResponse) => void]>([
  ['its response', (response) => void response.destroy()],
  ['its connection', ({ socket }) => void socket?.destroy()],
])('a reader that has ended %s before the stream opens takes no place, and keeps nothing going', async (_, end) => {
  const response = answering();
  const streams = new Streams(LIMITS);
  const closed = new Promise((resolve) => void response.once('close', resolve));
  end(response);
  await closed;
  const { ended } = streams.open(response, { ...OPENING, until: Number.MAX_SAFE_INTEGER });
  expect([ended.aborted, streams.size, jest.getTimerCount()]).toEqual([true, 0, 0]);
  // A second word of the end frees no place of another stream.
  const others = [answering(), answering()];
  for (const other of others) streams.open(other, { ...OPENING, until: Number.MAX_SAFE_INTEGER });
  response.emit('close');
  expect(() => streams.open(answering(), { ...OPENING, until: Number.MAX_SAFE_INTEGER })).toThrow('2 event streams');
});

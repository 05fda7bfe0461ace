/**
 * A call whose worker is gone, at servers of the legacy era (mcp.md §2.5; F1, F8; INV-X1): another worker gets the
 * answer, or says that it is not known, and never sends the call. Each request and each execution is counted where it
 * happens.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { CallEnding, CallProgress, ResumePoint, ToolCall } from '../../activities/mcp/port.ts';
import { type Asking, asking, pointIn, sealed, SLOW, worker } from '../support/activities/asked-answer.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { event } from '../support/servers/asking-server.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { startEverythingServer } from '../support/servers/real-servers.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { until } from '../support/until.ts';

/** A worker that sends a call and goes in the middle of it. @param first waits for what the test wants to be there by then */
async function lostWorker(
  url: string,
  first: (beats: readonly CallProgress[]) => Promise<unknown>,
  made: Partial<ToolCall>,
): Promise<{ readonly point: ResumePoint; readonly ending: CallEnding }> {
  const going = new AbortController();
  const call = aCall({
    ...made,
    signal: going.signal,
    seal: async (point) => sealed(point),
    isHandedOn: () => true,
  });
  const ended = worker().call(aConnection({ url }), call);
  await first(call.beats);
  const resume = await until(() => call.beats.findLast((beat) => beat.resume !== undefined)?.resume, {
    what: 'where the answer comes',
  });
  going.abort();
  return { point: pointIn(resume), ending: await ended };
}

describe('at a server that keeps its events', () => {
  let server: ResumableServer;
  beforeEach(async () => void (server = await startResumableServer()));
  afterEach(async () => server.close());

  const slow = (purpose: string) => ({ definition: SLOW, arguments: { purpose } });
  const lost = async (purpose: string) => await lostWorker(server.url, () => server.held(purpose), slow(purpose));
  const isAsked = async () =>
    await until(() => server.requests.find(({ lastEventId }) => lastEventId !== undefined), { what: 'it is asked' });
  const resume = async (asked: Asking) => await worker().resume(aConnection({ url: server.url }), asked);

  test('a worker that goes says where the answer comes, and the server hears of no cancellation', async () => {
    const { point, ending } = await lost('left');
    expect(ending).toMatchObject({ kind: 'unknown', message: expect.stringContaining('the worker ended') });
    expect(point).toEqual({
      sessionId: server.secrets.sessions.at(-1),
      protocolVersion: '2025-11-25',
      requestId: expect.anything(),
      eventId: expect.stringMatching(/^event-/),
      sentAt: expect.stringMatching(/Z$/),
    });
    expect(server.secrets.events).toContain(point.eventId);
    expect(server.cancelled).toEqual([]);
    expect(server.requests.filter(({ http, rpc }) => http === 'DELETE' || rpc === 'notifications/cancelled')).toEqual(
      [],
    );
  });

  test.each(['before it is asked for', 'while it is waited for'])(
    'an answer that comes %s is given to another worker, and the call ran once',
    async (when) => {
      const { point } = await lost('once');
      const before = server.requests.length;
      if (when === 'before it is asked for') server.release('once');
      const asked = resume(asking(point));
      await isAsked();
      server.release('once');
      expect(await asked).toMatchObject({
        kind: 'executed',
        isError: false,
        // The server said the id of the session in its answer (INV-S1).
        result: { content: [{ type: 'text', text: 'once is done in [redacted]' }] },
      });
      expect(server.executed).toEqual(['once']);
      expect(server.requests.slice(before).map(({ http, rpc }) => rpc ?? http)).toEqual(['GET', 'DELETE']);
    },
  );

  test('progress moves the point on, and is told by whoever asks', async () => {
    const stepping = async (beats: readonly CallProgress[]) => {
      await server.held('steps');
      await server.progress('steps', 1);
      await until(() => beats.find(({ progress, resume: kept }) => progress === 1 && kept), { what: 'the first step' });
    };
    const first = await lostWorker(server.url, stepping, slow('steps'));
    const asked = asking(first.point);
    const ended = resume(asked);
    await isAsked();
    await server.progress('steps', 2);
    const told = await until(
      () => asked.beats.find((beat) => beat.progress === 2 && beat.resume?.ciphertext !== asked.resume.ciphertext),
      { what: 'the second step' },
    );
    expect(told.sentAt).toBe(first.point.sentAt);
    server.release('steps');
    expect(await ended).toMatchObject({ kind: 'executed' });
    // Whoever had asked after the second step would have got the answer all the same.
    expect(server.secrets.events).toContain(told.resume && pointIn(told.resume).eventId);
    expect(server.executed).toEqual(['steps']);
  });

  test('a connection that ends while it is waited for is opened again', async () => {
    const { point } = await lost('again');
    const ended = resume(asking(point));
    const gets = () => server.requests.filter(({ http }) => http === 'GET').length;
    await until(() => gets() === 1 || undefined, { what: 'it is asked' });
    server.disconnect();
    await until(() => gets() === 2 || undefined, { what: 'it is asked again' });
    server.release('again');
    expect(await ended).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual(['again']);
  });

  test('whoever asks may be lost too: the next one gets the answer', async () => {
    const { point } = await lost('twice');
    const going = new AbortController();
    const second = resume(asking(point, { signal: going.signal, isHandedOn: () => true }));
    await isAsked();
    going.abort();
    expect(await second).toMatchObject({ kind: 'unknown' });
    server.release('twice');
    expect(await resume(asking(point))).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual(['twice']);
  });

  test('where nobody wants the answer any more, the session is ended', async () => {
    const { point } = await lost('unwanted');
    const cancelled = new AbortController();
    const ended = resume(asking(point, { signal: cancelled.signal }));
    await isAsked();
    cancelled.abort();
    expect(await ended).toMatchObject({ kind: 'unknown', message: expect.stringContaining('nobody waits') });
    expect(server.requests.at(-1)?.http).toBe('DELETE');
  });

  test('a server that has forgotten the session says so at once: the outcome is unknown', async () => {
    const { point } = await lost('forgotten');
    server.forget();
    expect(await resume(asking(point))).toMatchObject({
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('HTTP 404'),
    });
    expect(server.executed).toEqual(['forgotten']);
  });

  test('an answer to another request is none: the outcome is unknown when the time is over', async () => {
    const { point } = await lost('other');
    server.release('other');
    const asked = asking({ ...point, requestId: 4_711 }, { timeoutMs: 1_000 });
    expect(await resume(asked)).toMatchObject({ kind: 'unknown', message: expect.stringContaining('in time') });
  });

  test('a call without a key that could seal says nothing of it', async () => {
    server.release('unsealed');
    const call = aCall(slow('unsealed'));
    expect(await worker().call(aConnection({ url: server.url }), call)).toMatchObject({ kind: 'executed' });
    expect(call.beats.filter(({ resume: kept }) => kept !== undefined)).toEqual([]);
  });
});

// What may pass is asked again, what is no answer to the very call proves nothing of it, and nothing is ever sent
// (INV-X1, INV-X2; mcp.md §2.5).
describe('at a server that does not give its answer, or gives something else', () => {
  const POINT: ResumePoint = {
    sessionId: 'session-0123456789abcdef',
    protocolVersion: '2025-11-25',
    requestId: 1,
    eventId: 'e-1',
    sentAt: '2026-01-01T00:00:00.000Z',
  };
  const LATE = { type: 'text', text: 'late' };
  const GOT = { kind: 'executed', result: { content: [LATE] } };
  const UNKNOWN = { kind: 'unknown', code: 'OUTCOME_UNKNOWN' };
  /** More than a timer holds (2^31 ms), so that it would be no pause at all. */
  const RETRY = 'retry: 9999999999\n';
  const SOON = { timeoutMs: 1_500 };
  const HUGE = 'x'.repeat(33 * 1024 * 1024);

  let server: RawServer;
  beforeEach(async () => void (server = await startRawServer({ era: 'legacy' })));
  afterEach(async () => server.close());

  type Get = (response: ServerResponse, asked: number) => unknown;
  const says =
    (status: number, headers: Record<string, string> = {}, body = ''): Get =>
    (response) =>
      response.writeHead(status, headers).end(body);
  const streams =
    (...events: readonly string[]): Get =>
    (response) =>
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events.join(''));
  const answers = streams(event({ id: 1, result: { content: [LATE] } }, 'e-2'));
  const first =
    (get: Get, then: Get = answers): Get =>
    (response, asked) =>
      (asked === 1 ? get : then)(response, asked);

  /** What comes of asking a server that answers the requests for an answer so, one after the other. */
  async function resumedFrom(get: Get, over: Parameters<typeof asking>[1] = {}, connection: object = {}) {
    let asked = 0;
    server.become({
      era: 'legacy',
      intercept: (request, response) => {
        if (request.method === 'GET') get(response, (asked += 1));
        else response.writeHead(204).end();
        return true;
      },
    });
    const wanted = asking(POINT, over);
    const ending = await worker().resume(aConnection({ url: server.url, ...connection }), wanted);
    expect(server.executions()).toBe(0);
    return { ending, asked, beats: wanted.beats };
  }

  test.each([
    [302, 'sends whoever asks elsewhere', ['GET', 'DELETE']],
    [400, 'has its answer no more', ['GET', 'DELETE']],
    // With another token it may be asked for again.
    [401, 'does not accept the token', ['GET']],
    [403, 'does not reach so far', ['GET', 'DELETE']],
    [404, 'has its answer no more', ['GET', 'DELETE']],
    [405, 'gives no answer twice', ['GET', 'DELETE']],
    [410, 'has its answer no more', ['GET', 'DELETE']],
  ])('HTTP %i (%s): it is asked once, and the outcome is unknown', async (status, why, requests) => {
    const elsewhere = { location: 'http://127.0.0.1:1/elsewhere' };
    const { ending } = await resumedFrom(says(status, elsewhere), {}, { accessToken: 'token-1' });
    const message = expect.stringMatching(new RegExp(`${why}.*HTTP ${status}`));
    expect(ending).toMatchObject({ ...UNKNOWN, message });
    expect(server.seen.map(({ httpMethod }) => httpMethod)).toEqual(requests);
  });

  const OTHER = 'of another call';
  test.each<[string, Get]>([
    ...[409, 429, 500, 503].map((status): [string, Get] => [`HTTP ${status}`, says(status)]),
    ['the page of a proxy that is larger than this service reads', says(500, {}, HUGE)],
    [
      'the answer to another request',
      streams(event({ id: 99, result: { content: [{ type: 'text', text: OTHER }] } }, 'e-99')),
    ],
    ['an error for another request', streams(event({ id: 99, error: { code: -32_603, message: OTHER } }, 'e-99'))],
  ])('%s may pass, and ends nothing: it is asked again where it was, and the answer counts', async (_, get) => {
    const { ending, asked, beats } = await resumedFrom(first(get));
    expect(ending).toMatchObject(GOT);
    expect(asked).toBe(2);
    // Whoever asks after this worker does not go by the event of another call.
    expect(beats.map(({ resume }) => resume && pointIn(resume).eventId)).not.toContain('e-99');
  });

  test('that the stream is larger than this service reads does not say that the tool has run (INV-X2)', async () => {
    const log = { method: 'notifications/message', params: { level: 'info', data: HUGE } };
    const { ending, asked } = await resumedFrom(streams(event(log, 'e-2')));
    const message = expect.stringContaining('larger than this service reads');
    expect(ending).toMatchObject({ kind: 'unknown', message });
    expect(asked).toBe(1);
  });

  test('progress of another call is none of this one, and moves nothing', async () => {
    const progressOf = (progressToken: unknown, progress: number) =>
      event({ method: 'notifications/progress', params: { progressToken, progress } }, `e-${progress}`);
    const { beats } = await resumedFrom(first(streams(progressOf(1, 5), progressOf('another', 6))));
    const told = beats.map(({ progress, resume }) => [progress, resume && pointIn(resume).eventId]).flat();
    expect(told).toEqual(expect.arrayContaining([5, 'e-5']));
    for (const foreign of [6, 'e-6']) expect(told).not.toContain(foreign);
  });

  test.each<[string, Get]>([
    ['a stream that wants a pause of months', streams(`${RETRY}id: e-2\ndata: \n\n`)],
    ['Retry-After with 429', says(429, { 'retry-after': '3600' })],
    ['Retry-After with 503', says(503, { 'retry-after': '3600' })],
  ])('%s: the server is not asked again in this time', async (_, get) => {
    const { ending, asked } = await resumedFrom(get, SOON);
    expect(ending).toMatchObject({ kind: 'unknown', message: expect.stringContaining('in time') });
    expect(asked).toBe(1);
  });

  test('nor is one that wants it of the worker that has sent the call (typescript-sdk, its own reconnection)', async () => {
    const isAgain = ({ headers }: Pick<IncomingMessage, 'headers'>) => headers['last-event-id'] !== undefined;
    server.become({
      era: 'legacy',
      sessions: true,
      onCall: ({ response }) => void streams(`${RETRY}id: e-1\ndata: \n\n`)(response, 1),
      intercept: (request, response) => {
        if (isAgain(request)) streams(`${RETRY}id: e-2\ndata: \n\n`)(response, 2);
        return isAgain(request);
      },
    });
    expect(await worker().call(aConnection({ url: server.url }), aCall(SOON))).toMatchObject({ kind: 'unknown' });
    expect(server.seen.filter(isAgain)).toEqual([]);
  });

  test.each<[string, { asks?: true }, string]>([
    ['may have asked the lost worker on this stream', {}, ''],
    ['asks before it', {}, event({ id: 7, method: 'sampling/createMessage', params: {} })],
    // What it asked is in no stream that is opened again, where it asked on the standing one.
    ['may have asked the lost worker on the standing stream', { asks: true }, ''],
  ])('INV-X1: an error of JSON-RPC from a server that %s proves nothing', async (_, asks, before) => {
    const error = event({ id: 1, error: { code: -32602, message: 'no such thing' } }, 'e-2');
    expect((await resumedFrom(streams(before, error), {}, asks)).ending).toMatchObject(UNKNOWN);
  });
});

test('the reference server finds its own streams no more, and would be waited for without end: it is given up in time', async () => {
  const server = await startEverythingServer();
  try {
    const definition = aDefinition({ name: 'trigger-long-running-operation' });
    const lost = await lostWorker(server.url, async () => undefined, {
      definition,
      arguments: { duration: 60, steps: 60 },
    });
    expect(lost.ending).toMatchObject({ kind: 'unknown' });
    const asked = asking(lost.point, { definition, timeoutMs: 2_000 });
    expect(await worker().resume(aConnection({ url: server.url }), asked)).toMatchObject({
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('did not give its answer in time'),
    });
  } finally {
    await server.close();
  }
});

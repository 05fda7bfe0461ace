/**
 * A call whose worker is gone, at servers of the legacy era (mcp.md §2.5; F1, F8; INV-X1): another worker gets the answer, or says
 * that it is not known, and never sends the call. Each request and each execution is counted where it happens.
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { CallEnding, CallProgress, ResumePoint } from '../../activities/mcp/port.ts';
import { type Asking, asking, pointIn, sealed, SLOW, worker } from '../support/asked-answer.ts';
import { aCall, aConnection } from '../support/mcp-call.ts';
import { type ResumableServer, startResumableServer } from '../support/resumable-server.ts';
import { until } from '../support/until.ts';

/** A worker that sends a call and goes in the middle of it. @param first waits for what the test wants to be there by then */
async function lostWorker(
  url: string,
  purpose: string,
  first: (beats: readonly CallProgress[]) => Promise<unknown>,
): Promise<{ readonly point: ResumePoint; readonly ending: CallEnding }> {
  const going = new AbortController();
  const call = aCall({
    definition: SLOW,
    arguments: { purpose },
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

  const lost = async (purpose: string) => await lostWorker(server.url, purpose, () => server.held(purpose));
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
      await until(() => server.requests.find(({ lastEventId }) => lastEventId !== undefined), { what: 'it is asked' });
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
    const first = await lostWorker(server.url, 'steps', async (beats) => {
      await server.held('steps');
      await server.progress('steps', 1);
      await until(() => beats.find(({ progress, resume: kept }) => progress === 1 && kept), { what: 'the first step' });
    });
    const asked = asking(first.point);
    const ended = resume(asked);
    await until(() => server.requests.find(({ lastEventId }) => lastEventId !== undefined), { what: 'it is asked' });
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
    await until(() => server.requests.find(({ lastEventId }) => lastEventId !== undefined), { what: 'it is asked' });
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
    await until(() => server.requests.find(({ lastEventId }) => lastEventId !== undefined), { what: 'it is asked' });
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
    const call = aCall({ definition: SLOW, arguments: { purpose: 'unsealed' } });
    expect(await worker().call(aConnection({ url: server.url }), call)).toMatchObject({ kind: 'executed' });
    expect(call.beats.filter(({ resume: kept }) => kept !== undefined)).toEqual([]);
  });
});

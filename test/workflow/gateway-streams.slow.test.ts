/** Streams and limits of the gateway: nothing is lost or told twice, and no reader costs more than it may. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { get, type IncomingMessage, request as rawRequest, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ChangeEvent } from '../../contracts/schemas/http-api.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { callerOf, openStream, startTestGateway, startTestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

let ben: string;
let eve: string;

const LIMITS = { bodyBytes: 4_096, streams: 60, streamsPerPerson: 50, requestSeconds: 1 };

const provider = during(() => startTestProvider());
const policy = { approvers: { ids: ['ben'] }, redact: [{ server: 'bank', arguments: ['pin'] }] };
const { world } = useBank({ policy });
const gateway = during(() => startTestGateway(world, provider, { config: { limits: LIMITS } }));
beforeAll(async () => {
  ben = await provider.token({ sub: 'ben' });
  eve = await provider.token({ sub: 'eve' });
});

async function asking(count = 1): Promise<RunHandle> {
  const calls = Array.from({ length: count }, (_, index) => ({
    tool: 'bank/pay',
    arguments: { purpose: 'stream', index },
  }));
  const run = await world.start([{ calls }, { text: 'done' }]);
  await openRequests(run, count);
  await until(() => gateway.projection.run(run.runId)?.row.pending === count, { what: 'the projection' });
  return run;
}

const seqsOf = (events: readonly { readonly event: string | undefined; readonly data: unknown }[]): number[] =>
  events.filter(({ event }) => event === 'entry').map(({ data }) => (data as LedgerEntry).seq);

describe('the stream of a run', () => {
  test('has every entry once, in order, across a lost connection, and ends with the run', async () => {
    const run = await asking();
    const path = `/v1/runs/${run.runId}/events`;
    const first = await openStream(gateway, path, ben);
    await until(() => seqsOf(first.events).length >= 3);
    first.close();
    await first.ended;
    const last = first.events.findLast(({ event }) => event === 'entry')?.id;
    const second = await openStream(gateway, path, ben, last);
    // A reader who wants all of it, while another follows already.
    const third = await openStream(gateway, path, ben);
    const [request] = await openRequests(run);
    await run.decide(decisionOn(request, 'ben'));
    await run.result();
    await second.ended;
    await third.ended;
    const whole = (await run.ledger()).map(({ seq }) => seq);
    expect([...seqsOf(first.events), ...seqsOf(second.events)]).toEqual(whole);
    expect(seqsOf(third.events)).toEqual(whole);
    expect(second.events.at(-1)).toMatchObject({ event: 'end', id: undefined });
  });

  test('of a run that has ended is its whole ledger', async () => {
    const run = await world.start([{ text: 'done' }], { initiator: { id: 'ben' } });
    await run.result();
    const stream = await openStream(gateway, `/v1/runs/${run.runId}/events`, ben);
    await stream.ended;
    expect(seqsOf(stream.events)).toEqual((await run.ledger()).map(({ seq }) => seq));
  });
});

describe('the event of an opened request', () => {
  const PIN = 'CANARY-4711';
  const paying = { tool: 'bank/pay', arguments: { purpose: 'stream', pin: PIN } };
  const eventsOf = (events: readonly { readonly event: string | undefined; readonly data: unknown }[]): RunEvent[] =>
    events.flatMap(({ event, data }) => (event === 'entry' ? [data as RunEvent] : []));
  const openedIn = (events: readonly RunEvent[]) => events.filter(({ fact }) => fact.kind === 'request.opened');

  test('says of what, with hashes and without what is redacted; also to a late reader, and from the library', async () => {
    const run = await world.start([{ calls: [paying] }, { calls: [paying] }, { text: 'done' }]);
    const [request] = await openRequests(run);
    await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
    const stream = await openStream(gateway, `/v1/runs/${run.runId}/events`, ben);
    const about = {
      server: 'bank',
      tool: 'pay',
      definitionHash: request?.definitionHash,
      argumentsHash: hashOf(paying.arguments),
      arguments: '{"pin":"[redacted]","purpose":"stream"}',
      description: request?.description,
      annotations: request?.annotations,
    };
    expect(about.description).toBeDefined();
    await until(() => openedIn(eventsOf(stream.events)).length === 1);
    expect(openedIn(eventsOf(stream.events))).toMatchObject([{ request: about }]);
    for (const { request: _, ...entry } of eventsOf(stream.events)) expect(LedgerEntry.parse(entry)).toEqual(entry);
    await run.decide(decisionOn(request, 'ben'));
    await until(async () => (await openRequests(run))[0]?.callId === 't2.c0');
    const late = await openStream(gateway, `/v1/runs/${run.runId}/events`, ben);
    await until(() => openedIn(eventsOf(late.events)).length === 2);
    const [next] = await openRequests(run);
    await run.decide(decisionOn(next, 'ben'));
    await run.result();
    await late.ended;
    const watched: RunEvent[] = [];
    for await (const event of run.watch({ details: true })) watched.push(event);
    const [old, newest] = openedIn(watched);
    // The run no longer holds the first turn: its verdict says which tool it was.
    const { server, tool, definitionHash, argumentsHash } = about;
    expect(old?.request).toEqual({ server, tool, definitionHash, argumentsHash });
    expect(newest?.request).toMatchObject({ tool, argumentsHash });
    const plain: RunEvent[] = [];
    for await (const event of run.watch()) plain.push(event);
    expect(plain).toEqual(await run.ledger());
    expect(JSON.stringify([stream.events, late.events, watched])).not.toContain(PIN);
    stream.close();
  });
});

describe('the stream of all changes', () => {
  const changesOf = (
    events: readonly { readonly event: string | undefined; readonly data: unknown }[],
    run: RunHandle,
  ) =>
    events.flatMap(({ event, data }) =>
      event === 'change' && (data as ChangeEvent).run === run.runId ? [data as ChangeEvent] : [],
    );

  test('tells whom it concerns, with what they may do, and tells again what was missed', async () => {
    const mine = await openStream(gateway, '/v1/events', ben);
    const foreign = await openStream(gateway, '/v1/events', eve);
    const run = await asking();
    await until(() => changesOf(mine.events, run).some(({ requests }) => requests.length === 1));
    expect(changesOf(mine.events, run).at(-1)).toMatchObject({
      pending: 1,
      requests: [{ callId: 't1.c0', offers: ['approve', 'reject'] }],
    });
    const last = mine.events.at(-1)?.id;
    mine.close();
    await mine.ended;
    const [request] = await openRequests(run);
    await run.decide(decisionOn(request, 'ben'));
    await run.result();
    await until(() => gateway.projection.run(run.runId)?.row.endedAt !== undefined);
    const back = await openStream(gateway, '/v1/events', ben, last);
    await until(() => changesOf(back.events, run).some(({ pending }) => pending === 0));
    // Whoever is asked nothing hears nothing.
    expect(changesOf(foreign.events, run)).toEqual([]);
    const stale = await openStream(gateway, '/v1/events', ben, 'another.7');
    await until(() => stale.events.length > 0);
    expect(stale.events[0]).toMatchObject({ event: 'reset' });
    for (const stream of [foreign, back, stale]) stream.close();
  });

  test('costs one query for a change, however many follow it', async () => {
    const streams = await Promise.all(
      Array.from({ length: 40 }, async () => await openStream(gateway, '/v1/events', ben)),
    );
    const before = gateway.queries();
    const run = await asking();
    await until(() =>
      streams.every(({ events }) => changesOf(events, run).some(({ requests }) => requests.length === 1)),
    );
    // Once for the start of the run at the most, and once for its request.
    expect(gateway.queries() - before).toBeLessThanOrEqual(2);
    for (const stream of streams) stream.close();
    await Promise.all(streams.map(({ ended }) => ended));
    await run.stop({ by: 'ann', reason: 'seen' });
    await run.result();
  });

  test('is refused beyond the streams of one person and of all, and there is room again when some have ended', async () => {
    await until(
      async () => (await callerOf(gateway, undefined)<{ streams: number }>('GET', '/health')).body.streams === 0,
    );
    const streams = await Promise.all(
      Array.from({ length: 50 }, async () => await openStream(gateway, '/v1/events', ben)),
    );
    expect(streams.every(({ status }) => status === 200)).toBe(true);
    const more = await callerOf(gateway, ben)('GET', '/v1/events');
    expect(more).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } });
    expect(Number(more.headers.get('retry-after'))).toBeGreaterThan(0);
    const others = await Promise.all(
      Array.from({ length: 10 }, async () => await openStream(gateway, '/v1/events', eve)),
    );
    expect((await callerOf(gateway, eve)('GET', '/v1/events')).status).toBe(429);
    for (const stream of [...streams, ...others]) stream.close();
    const again = await until(async () => {
      const stream = await openStream(gateway, '/v1/events', eve);
      return stream.status === 200 && stream;
    });
    again.close();
  });

  test('ends with the token that opened it', async () => {
    const short = await provider.token({ sub: 'ben', lives: 2 });
    const stream = await openStream(gateway, '/v1/events', short);
    await stream.ended;
    expect(stream.status).toBe(200);
  });
});

describe('a reader of a real connection who reads nothing', () => {
  const ONE_EVENT = 4_096;
  /** What the gateway lets wait for a reader, and one event that came before the bound was reached. */
  const BOUND = 1_048_576 + ONE_EVENT;
  const MOST_CHANGES = 2_000_000;
  /** Path → the newest answer that the gateway gives there. */
  const answers = new Map<string, ServerResponse>();
  const seen = (message: unknown): void => {
    // Sound: this is what Node says in this channel.
    const { request, response } = message as { readonly request: IncomingMessage; readonly response: ServerResponse };
    answers.set(request.url ?? '', response);
  };
  beforeAll(() => subscribe('http.server.request.start', seen));
  afterAll(() => void unsubscribe('http.server.request.start', seen));

  /** Asks with these headers, and reads not even the answer. */
  async function idle({ url }: Gateway, path: string, headers: Readonly<Record<string, string>>) {
    answers.delete(path);
    const { host, hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname).pause();
    socket.on('error', () => undefined);
    const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
    const response = await until(() => answers.get(path), { what: 'the request' });
    await until(() => response.headersSent, { what: 'the stream' });
    expect(response.statusCode).toBe(200);
    return { response, close: () => socket.destroy() };
  }

  /** A run that has ended: nothing is asked of it when its changes are told. */
  async function ended(at: Gateway): Promise<RunHandle> {
    const run = await world.start([{ text: 'done' }], { initiator: { id: 'ben' } });
    await run.result();
    await until(() => at.projection.run(run.runId)?.row.endedAt !== undefined, { what: 'the end in the projection' });
    return run;
  }

  /** Tells of changes until this holds. @returns the most bytes that waited for the reader */
  async function flood(at: Gateway, run: RunHandle, response: ServerResponse, isOver: () => boolean): Promise<number> {
    let [changes, most] = [0, 0];
    while (!isOver()) {
      if ((changes += 1) > MOST_CHANGES) throw new Error(`${MOST_CHANGES} changes did not bring it about`);
      at.projection.touch(run.runId);
      if (changes % 50 > 0) continue;
      await new Promise((resolve) => void setImmediate(resolve));
      most = Math.max(most, response.writableLength);
    }
    return most;
  }

  test('is waited for with few bytes, told nothing of more, and let go; others have every change (events)', async () => {
    const run = await ended(gateway);
    const path = '/v1/events?';
    const reader = await idle(gateway, path, { authorization: `Bearer ${ben}` });
    const eager = await openStream(gateway, '/v1/events', ben);
    await flood(gateway, run, reader.response, () => reader.response.writableNeedDrain);
    // What comes now waits nowhere: the reader would be told to read the lists anew. A heartbeat may wait beside it.
    let more = 0;
    const most = await flood(gateway, run, reader.response, () => (more += 1) > 10_000);
    expect(most).toBeLessThanOrEqual(reader.response.writableHighWaterMark + ONE_EVENT);
    const told = eager.events.length;
    gateway.projection.touch(run.runId);
    await until(() => eager.events.length > told, { what: 'the next change at the other reader' });
    expect(eager.events.filter(({ event }) => event === 'reset')).toEqual([]);
    await until(() => reader.response.destroyed, { what: 'the end of the idle stream', withinMs: 90_000 });
    eager.close();
    reader.close();
  }, 180_000);

  test('of the pages, whose events cannot wait, is let go above the bound; others go on', async () => {
    const strict = await startTestGateway(world, provider, { config: { oidc: undefined, development: true } });
    try {
      const signedIn = await fetch(`${strict.url}/sign-in`, {
        method: 'POST',
        redirect: 'manual',
        headers: { origin: strict.url },
        body: new URLSearchParams({ id: 'ben', tenant: 'default' }),
      });
      const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
      const run = await ended(strict);
      const reader = await idle(strict, '/live?', { cookie });
      let bytes = 0;
      const eager = get(`${strict.url}/live`, { headers: { cookie }, agent: false }, (answer) => {
        answer.on('data', (chunk: Buffer) => void (bytes += chunk.length));
      });
      eager.on('error', () => undefined);
      await until(() => bytes > 0, { what: 'the other reader' });
      const most = await flood(strict, run, reader.response, () => reader.response.destroyed);
      expect(most).toBeGreaterThan(0);
      expect(most).toBeLessThan(BOUND);
      expect(reader.response.writableLength).toBe(0);
      const read = bytes;
      expect(answers.get('/live')?.destroyed).toBe(false);
      strict.projection.touch(run.runId);
      await until(() => bytes > read, { what: 'the next change at the other reader' });
      eager.destroy();
      reader.close();
    } finally {
      await strict.stop();
    }
  }, 180_000);
});

describe('limits', () => {
  test('a body above the bound is refused, and one that never ends is cut off', async () => {
    const caller = callerOf(gateway, ben);
    expect(await caller('POST', '/v1/decisions', { decisions: ['x'.repeat(5_000)] })).toMatchObject({
      status: 413,
      body: { code: 'BODY_TOO_LARGE' },
    });
    const { hostname, port } = new URL(gateway.url);
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const slow = rawRequest({
        host: hostname,
        port,
        method: 'POST',
        path: '/v1/decisions',
        headers: { authorization: `Bearer ${ben}`, 'content-type': 'application/json', 'content-length': 1_000 },
      });
      slow.once('response', ({ statusCode }) => resolve(statusCode));
      slow.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ECONNRESET' ? resolve(undefined) : reject(error),
      );
      slow.write('{"decisions":');
    });
    // It is answered, or the connection is closed.
    expect([400, undefined]).toContain(status);
  });

  test('headers that never end are cut off', async () => {
    const { hostname, port } = new URL(gateway.url);
    await new Promise<void>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => socket.write('GET /v1/me HTTP/1.1\r\nHost: x\r\nX-A: '));
      socket.once('error', reject);
      socket.once('close', () => resolve());
      socket.resume();
    });
  });

  test('one person who asks too often waits; others do not', async () => {
    const strict = await startTestGateway(world, provider, { config: { limits: { requestsPerMinute: 5 } } });
    try {
      const asked = async (token: string) => (await callerOf(strict, token)('GET', '/v1/me')).status;
      const statuses: number[] = [];
      for (let index = 0; index < 7; index += 1) statuses.push(await asked(ben));
      expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429]);
      expect(await asked(eve)).toBe(200);
      const refused = await callerOf(strict, ben)('GET', '/v1/me');
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      for (let index = 0; index < 7; index += 1)
        expect((await callerOf(strict, undefined)('GET', '/health')).status).toBe(200);
    } finally {
      await strict.stop();
    }
  });

  test.each([
    ['behind a proxy that is named, counts who asked the proxy', ['127.0.0.1'], 401],
    ['believes nobody else who claims to be a proxy', [], 429],
  ])('without a token, the gateway %s', async (_what, proxies, status) => {
    const strict = await startTestGateway(world, provider, { config: { proxies, limits: { requestsPerMinute: 3 } } });
    try {
      const asked = async (address: string) =>
        (await callerOf(strict, 'made-up')('GET', '/v1/me', undefined, { 'x-forwarded-for': address })).status;
      for (let index = 0; index < 3; index += 1) expect(await asked('203.0.113.1')).toBe(401);
      expect(await asked('203.0.113.1')).toBe(429);
      expect(await asked('203.0.113.2')).toBe(status);
    } finally {
      await strict.stop();
    }
  });
});

/**
 * Many readers and bad ones: 500 of them cost the queries of one, a request that many open costs none for each, and
 * what is no request gets an answer like every other one. What readers take of memory and CPU is told by
 * bench/gateway.ts.
 */
import { connect, type Socket } from 'node:net';
import { beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import {
  callerOf,
  type OpenStream,
  openStream,
  startTestGateway,
  startTestProvider,
} from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const READERS = 500;
const PEOPLE = 50;
const LIMITS = { streams: READERS, streamsPerPerson: READERS / PEOPLE, requestsPerMinute: 10_000 };

let tokens: readonly string[];

const provider = during(() => startTestProvider());
const { world } = useBank({ policy: { approvers: { groups: ['many'] } } });
const gateway = during(() => startTestGateway(world, provider, { config: { limits: LIMITS } }));
beforeAll(async () => {
  tokens = await Promise.all(
    Array.from({ length: PEOPLE }, async (_, index) => provider.token({ sub: `reader-${index}`, groups: ['many'] })),
  );
});

const tokenOf = (index: number): string => tokens[index % PEOPLE] ?? '';

async function asking(): Promise<RunHandle> {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'load' } }] }, { text: 'done' }]);
  await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
  return run;
}

function isTold({ events }: OpenStream, { runId }: RunHandle): boolean {
  return events.some(
    ({ event, data }) =>
      event === 'change' &&
      JSON.stringify(data).includes(`"run":"${runId}"`) &&
      JSON.stringify(data).includes('"offers":["approve","reject"]'),
  );
}

test('500 readers are told of a change, and it costs the queries of one', async () => {
  const streams = await Promise.all(
    Array.from({ length: READERS }, async (_, index) => openStream(gateway, '/v1/events', tokenOf(index))),
  );
  expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
  const before = gateway.queries();
  const run = await asking();
  await until(() => streams.every((stream) => isTold(stream, run)), { what: 'what 500 readers are told' });
  // Once for the start of the run at the most, and once for its request.
  expect(gateway.queries() - before).toBeLessThanOrEqual(2);
  // There is no room for another one, and nobody is thrown out for it.
  expect((await callerOf(gateway, tokenOf(0))('GET', '/v1/events')).status).toBe(429);
  for (const stream of streams) stream.close();
  await Promise.all(streams.map(({ ended }) => ended));
  await until(
    async () => (await callerOf(gateway, undefined)<{ streams: number }>('GET', '/health')).body.streams === 0,
    { what: 'the end of all streams' },
  );
});

test('a request that many people open costs no query for each', async () => {
  const run = await asking();
  const look = async (path: string): Promise<readonly number[]> =>
    await Promise.all(
      Array.from({ length: 200 }, async (_, index) => (await callerOf(gateway, tokenOf(index))('GET', path)).status),
    );
  const before = gateway.queries();
  for (const path of [`/v1/runs/${run.runId}/requests/t1.c0`, `/v1/runs/${run.runId}`, '/v1/requests?mine=decide'])
    expect(new Set(await look(path))).toEqual(new Set([200]));
  // The request, the state, and each of them once more, since answers are kept for a moment.
  expect(gateway.queries() - before).toBeLessThanOrEqual(8);
});

/** Sends these bytes, and returns what comes back until the gateway closes the connection. */
async function exchanged(head: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url);
  const socket: Socket = connect(Number(port), hostname);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  // A connection that the gateway cuts off while we send is an answer, too.
  socket.on('error', () => undefined);
  socket.write(head);
  await new Promise((resolve) => socket.once('close', resolve));
  return text;
}

test('what cannot be read as a request is told as a problem: too long, not HTTP, not percent-encoded', async () => {
  const host = new URL(gateway.url).host;
  const long = await exchanged(`GET / HTTP/1.1\r\nHost: ${host}\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`);
  expect(long).toMatch(/^HTTP\/1\.1 431 [^]*content-type: application\/problem\+json[^]*"code":"HEADERS_TOO_LARGE"/);
  expect(long).toMatch(/x-content-type-options: nosniff/);
  const noise = await exchanged('\u0016\u0003\u0001 hello\r\n\r\n');
  expect(noise).toMatch(/^HTTP\/1\.1 400 [^]*"code":"BODY_UNREADABLE"/);
  const by = callerOf(gateway, tokenOf(0));
  expect(await by('GET', `/v1/runs/${'x'.repeat(2_000)}`)).toMatchObject({ status: 422, body: { code: 'USAGE' } });
  expect(await by('GET', '/v1/runs/%E0%A4%A')).toMatchObject({ status: 422, body: { code: 'USAGE' } });
  const { headers } = await by('GET', '/v1/runs/%E0%A4%A');
  expect(headers.get('content-type')).toContain('application/problem+json');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  // It serves others as before.
  expect((await by('GET', '/v1/me')).status).toBe(200);
});

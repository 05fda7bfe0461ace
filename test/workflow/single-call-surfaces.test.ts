/** Single calls over HTTP and from the command line: who calls is who the token says, and the answer says what became of the call. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ShownCall, StartedCall } from '../../contracts/schemas/http/calls.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { type CliWorld, startCliWorld } from '../support/scenes/cli-world.ts';
import {
  type Caller,
  callerOf,
  type Claims,
  startTestGateway,
  startTestProvider,
  type TestProvider,
} from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decideNext, openRequests } from '../support/world/world.ts';

let provider: TestProvider;
let service: CliWorld;
let gateway: Gateway;

beforeAll(async () => {
  provider = await startTestProvider();
  service = await startCliWorld();
  gateway = await startTestGateway(service.world, provider, {
    config: { may: { start: { groups: ['backend'] }, read: { groups: ['audit'] } } },
  });
});
afterAll(async () => {
  await gateway.stop();
  await service.stop();
  await provider.close();
});

const call = (purpose: string, tool = 'lookup') => ({ server: 'bank', tool, arguments: { purpose } });

async function as(claims: Claims | string): Promise<Caller> {
  return callerOf(gateway, await provider.token(typeof claims === 'string' ? { sub: claims } : claims));
}

test('over HTTP one waits for the answer for as long as one says, and asks again by the id (S2.3)', async () => {
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  const said = { ...call('http', 'pay'), runId: 'http-1' };
  const first = await backend('POST', '/v1/calls', said);
  expect(first.status).toBe(201);
  expect(first.headers.get('location')).toBe('/v1/calls/http-1');
  expect(StartedCall.parse(first.body)).toMatchObject({ runId: 'http-1', started: true });
  const run = service.world.countersign.run('http-1');
  await openRequests(run);
  const waiting = await until(
    async () => {
      const { body } = await backend('GET', '/v1/calls/http-1');
      return ShownCall.parse(body).status === 'waiting' && body;
    },
    { what: 'the gateway says that somebody is asked' },
  );
  expect(waiting).toEqual({ runId: 'http-1', status: 'waiting', page: '/runs/http-1' });
  const [answer] = await Promise.all([backend('GET', '/v1/calls/http-1?waitSeconds=30'), decideNext(run, 'ben')]);
  expect(ShownCall.parse(answer.body)).toMatchObject({ status: 'ended', answer: { outcome: { kind: 'succeeded' } } });
  const again = await backend('POST', '/v1/calls', { ...said, waitSeconds: 30 });
  expect(again).toMatchObject({ status: 200, body: { ...answer.body, started: false } });
  expect(service.bank.callsFor('http')).toHaveLength(1);
  expect(factsOf(await run.ledger(), 'run.started')[0]?.initiator).toBe('billing');
});

test('a key makes the call sent again the same one; another call under the id is a conflict', async () => {
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  const key = { 'idempotency-key': 'once' };
  const first = await backend('POST', '/v1/calls', { ...call('keyed'), waitSeconds: 30 }, key);
  const again = await backend('POST', '/v1/calls', { ...call('keyed'), waitSeconds: 30 }, key);
  expect([first.status, again.status]).toEqual([201, 200]);
  expect(again.body).toEqual({ ...first.body, started: false });
  expect(service.bank.callsFor('keyed')).toHaveLength(1);
  expect(await backend('POST', '/v1/calls', call('other'), key)).toMatchObject({
    status: 409,
    body: { code: 'RUN_ID_CONFLICT' },
  });
});

test('nobody calls without the right to, in another name, or learns of calls of others', async () => {
  expect(await (await as('ann'))('POST', '/v1/calls', call('forbidden'))).toMatchObject({
    status: 403,
    body: { code: 'ACTION_FORBIDDEN' },
  });
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  const posing = { ...call('posing'), initiator: { id: 'ann' } };
  expect(await backend('POST', '/v1/calls', posing)).toMatchObject({ status: 422 });
  await backend('POST', '/v1/calls', { ...call('mine'), runId: 'mine', waitSeconds: 30 });
  expect(await (await as('eve'))('GET', '/v1/calls/mine')).toMatchObject({ status: 404 });
  expect(await (await as({ sub: 'eve', tenant: 'other', groups: ['audit'] }))('GET', '/v1/calls/mine')).toMatchObject({
    status: 404,
  });
  expect(await (await as({ sub: 'zoe', groups: ['audit'] }))('GET', '/v1/calls/mine')).toMatchObject({ status: 200 });
  for (const purpose of ['forbidden', 'posing']) expect(service.bank.callsFor(purpose)).toEqual([]);
});

test('countersign call prints the answer; the status says whether the call succeeded', async () => {
  await writeFile(join(service.world.engine.directory, 'arguments.yaml'), 'purpose: typed\n');
  const typed = ['call', 'bank/lookup', '--as', 'ann', '--id', 'typed', '--arguments', 'arguments.yaml'];
  const done = await service.cli(typed);
  expect(done).toMatchObject({ exitCode: 0, err: '' });
  expect(done.out).toContain('lookup did {"purpose":"typed"}');
  expect((await service.cli(typed)).out).toBe(done.out);
  expect(service.bank.callsFor('typed')).toHaveLength(1);

  const asked = ['call', 'bank/pay', '--as', 'ann', '--id', 'asked', '--arguments', '-', '--json'];
  const input = JSON.stringify({ purpose: 'asked' });
  const early = await service.cli([...asked, '--deadline', '1'], { input });
  expect(early).toMatchObject({ exitCode: 6 });
  expect(JSON.parse(early.out === '' ? early.err : early.out)).toMatchObject({ error: { code: 'RESULT_UNCERTAIN' } });
  await decideNext(service.world.countersign.run('asked'), 'ben', 'reject');
  const rejected = await service.cli(asked, { input });
  expect(rejected.exitCode).toBe(3);
  expect(rejected.out + rejected.err).toContain('CALL_UNSUCCESSFUL');
  expect(service.bank.callsFor('asked')).toEqual([]);
});

test('at the terminal one is told that a call waits, and where to look', async () => {
  let told = '';
  const ended = service.cli(['call', 'bank/pay', '--as', 'ann', '--id', 'told'], {
    onErr: (text) => {
      told += text;
    },
  });
  await until(() => told.includes('countersign requests told'), { what: 'the hint' });
  await decideNext(service.world.countersign.run('told'), 'ben');
  expect(await ended).toMatchObject({ exitCode: 0 });
});

test.each([['lookup'], ['bank/'], ['/lookup']])('%s names no tool, and starts nothing', async (named) => {
  const refused = await service.cli(['call', named, '--as', 'ann']);
  expect(refused).toMatchObject({ exitCode: 2, err: expect.stringContaining('server/tool') });
});

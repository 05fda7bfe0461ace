/** Single calls over HTTP and from the command line: who calls is who the token says, and the answer says what became of the call. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ShownCall, StartedCall } from '../../contracts/schemas/http/calls.ts';
import { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { startCliWorld } from '../support/scenes/cli-world.ts';
import {
  type Caller,
  callerOf,
  type Claims,
  startTestGateway,
  startTestProvider,
} from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { factsOf, refusalOf } from '../support/world/run-record.ts';
import { decideNext, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const provider = during(() => startTestProvider());
const service = during(() => startCliWorld());
const gateway = during(() =>
  startTestGateway(service.world, provider, {
    config: { may: { start: { groups: ['backend'] }, read: { groups: ['audit'] } } },
  }),
);

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
    body: { code: 'ACTION_FORBIDDEN', detail: expect.stringContaining('name you') },
  });
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  const posing = { ...call('posing'), initiator: { id: 'ann' } };
  expect(await backend('POST', '/v1/calls', posing)).toMatchObject({ status: 422 });
  await backend('POST', '/v1/calls', { ...call('mine'), runId: 'mine', waitSeconds: 30 });
  expect(await (await as('eve'))('GET', '/v1/calls/mine')).toMatchObject({ status: 404 });
  expect(await (await as({ sub: 'eve', tenant: 'other', groups: ['audit'] }))('GET', '/v1/calls/mine')).toMatchObject({
    status: 404,
  });
  expect(await (await as({ sub: 'zoe', groups: ['audit'] }))('GET', '/v1/calls/mine')).toMatchObject({
    status: 200,
    body: { status: 'ended' },
  });
  for (const purpose of ['forbidden', 'posing']) expect(service.bank.callsFor(purpose)).toEqual([]);
});

test('who approved a call does not read its result, by no way', async () => {
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  await backend('POST', '/v1/calls', { ...call('salary', 'pay'), runId: 'salary' });
  await decideNext(service.world.countersign.run('salary'), 'ben');
  const own = await backend('GET', '/v1/calls/salary?waitSeconds=30');
  expect(JSON.stringify(own.body)).toContain('pay did');
  const ben = await as('ben');
  for (const path of ['/v1/calls/salary', '/v1/runs/salary/result'])
    expect(await ben('GET', path)).toMatchObject({ status: 403, body: { code: 'ACTION_FORBIDDEN' } });
  for (const path of ['/v1/runs/salary/messages', '/v1/runs/salary/ledger', '/v1/runs/salary']) {
    const read = await ben('GET', path);
    expect(read.status).toBe(200);
    expect(JSON.stringify(read.body)).not.toContain('pay did');
  }
});

test('groups in another order are the same call; other groups are a conflict that says what to do', async () => {
  const key = { 'idempotency-key': 'groups' };
  const first = await as({ sub: 'billing', groups: ['backend', 'eu'] });
  expect(await first('POST', '/v1/calls', call('groups'), key)).toMatchObject({ status: 201 });
  const again = await as({ sub: 'billing', groups: ['eu', 'backend', 'eu'] });
  expect(await again('POST', '/v1/calls', call('groups'), key)).toMatchObject({ status: 200 });
  const moved = await as({ sub: 'billing', groups: ['backend'] });
  const refused = await moved('POST', '/v1/calls', call('groups'), key);
  expect(refused).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining('Your groups are part of it') },
  });
  const many = await as({
    sub: 'billing',
    groups: ['backend', ...Array.from({ length: 100 }, (_, index) => `g${index}`)],
  });
  expect(await many('POST', '/v1/calls', call('groups'))).toMatchObject({
    status: 422,
    body: { code: 'SPEC_INVALID', detail: expect.stringContaining('101 groups') },
  });
  expect(service.bank.callsFor('groups')).toHaveLength(1);
});

test('a call whose run was stopped has ended, without an answer; one person waits only so often at once', async () => {
  const backend = await as({ sub: 'billing', groups: ['backend'] });
  await backend('POST', '/v1/calls', { ...call('stopped', 'pay'), runId: 'stopped' });
  const most = GatewayConfig.parse({}).limits.streamsPerPerson;
  const waiting = Array.from(
    { length: most + 1 },
    async () => await backend('GET', '/v1/calls/stopped?waitSeconds=30'),
  );
  const refused = await Promise.race(waiting);
  expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } });
  await service.world.countersign.run('stopped').stop({ by: 'billing', reason: 'not needed' });
  const answers = await Promise.all(waiting);
  const ended = answers.filter(({ status }) => status === 200);
  expect(ended).toHaveLength(most);
  for (const { body } of ended)
    expect(body).toEqual({
      runId: 'stopped',
      status: 'ended',
      failure: { code: 'RUN_CANCELLED', message: expect.stringContaining('countersign ledger stopped') },
    });
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
  const refused = await service.cli(['call', named, '--as', 'ann', '--id', 'unnamed']);
  expect(refused).toMatchObject({ exitCode: 2, err: expect.stringContaining('server/tool') });
  expect(await refusalOf(service.world.countersign.run('unnamed').state())).toMatchObject({ code: 'RUN_NOT_FOUND' });
});

/** A gateway before workers in trust mode `signed`: what it sends counts by its own key, and for nobody beyond that key. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Config } from '../../contracts/schemas/config.ts';
import { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { gatewayParts } from '../../cli/session/gateway.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { runCommand } from '../support/cli.ts';
import { startProvider } from '../support/oauth/provider.ts';
import { refusalOf } from '../support/refusal.ts';
import {
  AUDIENCE,
  callerOf,
  startTestGateway,
  startTestProvider,
  type TestProvider,
} from '../support/scenes/gateway-world.ts';
import { type TestKey, testKey } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests, type World } from '../support/world/world.ts';

silenceProvider();

let provider: TestProvider;
let world: World;
let gateway: Gateway;
let key: TestKey;

beforeAll(async () => {
  provider = await startTestProvider();
  key = testKey('gateway-1', { kind: 'service', iss: provider.issuer, groups: ['finance'], speaksForMany: true });
  const approvers = { ids: [`${provider.issuer}|ben`], groups: ['finance', 'root'], need: 2 };
  ({ world } = await startBank(
    { policy: { approvers } },
    { beside: [provider], trusted: [key], client: { signer: key.signer } },
  ));
  // As the command does, from the files that an operator has.
  const { signer: _, entry, privateJwk } = key;
  const file = { ...privateJwk, kid: entry.kid, countersign: entry.countersign };
  await writeFile(join(world.engine.directory, 'gateway.jwk'), JSON.stringify(file));
  const config = Config.parse({
    gateway: {
      oidc: { issuer: provider.issuer, audience: AUDIENCE, tenant: 'default' },
      signing: { keyFile: 'gateway.jwk' },
    },
    egress: { allowLoopback: true },
  });
  const { trust } = await gatewayParts(config, 'signed', world.engine.directory);
  gateway = await startTestGateway(world, provider, { trust, config: { may: { start: { ids: ['svc'] } } } });
});
afterAll(async () => {
  await gateway.stop();
  await world.stop();
});

test('a run is started, told something, decided by two people and stopped, all by tokens', async () => {
  const svc = callerOf(gateway, await provider.token({ sub: 'svc' }));
  const { initiator: _, ...spec } = world.spec([
    { calls: [{ tool: 'bank/pay', arguments: { purpose: 'signed' } }] },
    { text: 'done' },
  ]);
  expect(await svc('POST', '/v1/runs', { runId: 'signed-1', spec })).toMatchObject({ status: 201 });
  const run = world.countersign.run('signed-1');
  const [request] = await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1);
  const path = '/v1/runs/signed-1/requests/t1.c0/decisions';
  const said = { kind: 'approve', digest: request.digest };
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  const fin = callerOf(gateway, await provider.token({ sub: 'fin', groups: ['finance', 'unheard-of'] }));
  // The key does not speak for this group, so it does not count.
  const root = callerOf(gateway, await provider.token({ sub: 'rot', groups: ['root'] }));
  expect((await root('POST', path, said)).status).toBe(404);
  expect(await ben('POST', path, said)).toMatchObject({ status: 200, body: { status: 'counted' } });
  expect(await svc('POST', '/v1/runs/signed-1/messages', { text: 'Thank you.' })).toMatchObject({ status: 200 });
  expect(await fin('POST', path, said)).toMatchObject({
    status: 200,
    body: { status: 'approved', decidedBy: `${provider.issuer}|fin` },
  });
  const decided = await until(async () => {
    const facts = factsOf(await run.ledger(), 'decision.accepted');
    return facts.length === 2 && facts;
  });
  expect(decided.map(({ approver, signature }) => [approver.id, signature?.kid])).toEqual([
    [`${provider.issuer}|ben`, 'gateway-1'],
    [`${provider.issuer}|fin`, 'gateway-1'],
  ]);
  await svc('POST', '/v1/runs/signed-1/stop', { reason: 'enough' });
  await run.result();
});

test('a rotated key: restarted with the new one the gateway signs by it, what the old one has signed counts on, and it signs nothing any more', async () => {
  const config = Config.parse({
    gateway: {
      oidc: { issuer: provider.issuer, audience: AUDIENCE, tenant: 'default' },
      signing: { keyFile: 'gateway-2.jwk' },
      may: { start: { ids: ['svc'] } },
    },
    egress: { allowLoopback: true },
  });
  const directory = world.engine.directory;
  const asked = async (by: Gateway, runId: string) => {
    const svc = callerOf(by, await provider.token({ sub: 'svc' }));
    const { initiator: _, ...spec } = world.spec([
      { calls: [{ tool: 'bank/pay', arguments: { purpose: runId } }] },
      { text: 'done' },
    ]);
    expect((await svc('POST', '/v1/runs', { runId, spec })).status).toBe(201);
    const run = world.countersign.run(runId);
    const [request] = await openRequests(run);
    return {
      run,
      said: { kind: 'approve', digest: request.digest },
      path: `/v1/runs/${runId}/requests/t1.c0/decisions`,
    };
  };
  const waiting = await asked(gateway, 'rotated-1');
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  expect(await ben('POST', waiting.path, waiting.said)).toMatchObject({ body: { status: 'counted' } });

  // Times in signatures are whole seconds: what is signed in the second of the rotation is the old key's no more.
  const nextSecond = async (since: number) =>
    await until(() => Math.floor(Date.now() / 1_000) > Math.floor(since / 1_000), { what: 'the next second' });
  await nextSecond(Date.now());
  const rotated = await runCommand(['keys', 'rotate', 'gateway-1', 'gateway-2', '--trust', 'trust.jwks', '--json'], {
    directory,
  });
  const { retired } = JSON.parse(rotated.out) as { readonly retired: string };
  const { trust } = await gatewayParts(config, 'signed', directory);
  const next = await startTestGateway(world, provider, { trust, config: { may: { start: { ids: ['svc'] } } } });
  try {
    await nextSecond(Date.parse(retired));
    // What waits goes on, with one vote by each key.
    const fin = callerOf(next, await provider.token({ sub: 'fin', groups: ['finance'] }));
    expect(await fin('POST', waiting.path, waiting.said)).toMatchObject({ status: 200, body: { status: 'approved' } });
    await waiting.run.result();
    const signers = factsOf(await waiting.run.ledger(), 'decision.accepted').map(({ signature }) => signature?.kid);
    expect(signers).toEqual(['gateway-1', 'gateway-2']);
    expect(factsOf(await waiting.run.ledger(), 'outcome').map(({ outcome }) => outcome)).toEqual(['succeeded']);

    // The process of before, if somebody forgot it.
    const later = await asked(next, 'rotated-2');
    await until(() => gateway.projection.run('rotated-2')?.row.pending === 1, { what: 'the old gateway’s list' });
    expect(await ben('POST', later.path, later.said)).toMatchObject({ status: 403 });
    expect(factsOf(await later.run.ledger(), 'decision.accepted')).toEqual([]);
    const again = callerOf(next, await provider.token({ sub: 'ben' }));
    expect(await again('POST', later.path, later.said)).toMatchObject({ body: { status: 'counted' } });
    expect(await fin('POST', later.path, later.said)).toMatchObject({ body: { status: 'approved' } });
    await later.run.result();
  } finally {
    await next.stop();
  }
});

test('without a key, or with one of another issuer, it does not start', async () => {
  const start = async (trust: Parameters<typeof startTestGateway>[2]) =>
    await refusalOf(startTestGateway(world, provider, trust));
  expect(await start({ trust: { mode: 'signed' } })).toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: 'gateway.signing' },
  });
  const voice = { iss: 'https://evil.example', groups: [], tenants: ['default'] };
  expect(await start({ trust: { mode: 'signed', speaking: { signer: key.signer, voice } } })).toMatchObject({
    code: 'CONFIG_INVALID',
  });
});

test('without an issuer, or with the development login on an address of others, it does not start', async () => {
  const refused = async (config: object) =>
    (await refusalOf(startTestGateway(world, provider, { config: { oidc: undefined, ...config } }))).facts['path'];
  expect(await refused({})).toBe('gateway');
  expect(await refused({ development: true, host: '0.0.0.0' })).toBe('gateway.development');
});

test('a service asks with a token that a provider we did not write has issued', async () => {
  const real = await startProvider({
    clients: [{ id: 'erp', secret: 'erp-secret-0123456789' }],
    resources: { [AUDIENCE]: 'api', 'https://other.example': 'api' },
  });
  const trusting = await startTestGateway(world, real);
  try {
    const tokenFor = async (resource: string): Promise<string> => {
      const answer = await fetch(`${real.issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('erp:erp-secret-0123456789').toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'api' }),
      });
      return ((await answer.json()) as { access_token: string }).access_token;
    };
    expect(await callerOf(trusting, await tokenFor(AUDIENCE))('GET', '/v1/me')).toMatchObject({
      status: 200,
      body: { id: 'erp', tenant: 'default', may: [] },
    });
    const other = await callerOf(trusting, await tokenFor('https://other.example'))('GET', '/v1/me');
    expect(other).toMatchObject({ status: 401, body: { code: 'SIGN_IN_REQUIRED' } });
    expect(other.headers.get('www-authenticate')).toBe('Bearer');
  } finally {
    await trusting.stop();
    await real.close();
  }
});

test('defaults listen on this machine alone, and let nobody start, read all or administer', () => {
  const nobody = { ids: [], groups: [] };
  expect(GatewayConfig.parse({})).toMatchObject({
    host: '127.0.0.1',
    may: { start: nobody, read: nobody, administer: nobody },
  });
});

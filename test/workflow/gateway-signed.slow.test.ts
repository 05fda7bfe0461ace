/** A gateway before workers in trust mode `signed`: what it sends counts by its own key, and for nobody beyond that key. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { CatalogRight } from '../../contracts/schemas/catalog.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { gatewayParts } from '../../cli/session/gateway.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
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
  const administrator = { ids: [`${provider.issuer}|ben`], groups: ['finance'], may: [...CatalogRight.options] };
  ({ world } = await startBank(
    { policy: { approvers }, catalog: { administrators: [administrator], loosening: 'countersign' } },
    { beside: [provider], names: ['bank', 'shop'], trusted: [key], client: { signer: key.signer } },
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

test('a catalog is connected, loosened by one person and agreed to by another, all by tokens', async () => {
  const ben = callerOf(gateway, await provider.token({ sub: 'ben' }));
  const fin = callerOf(gateway, await provider.token({ sub: 'fin', groups: ['finance'] }));
  // The key does not speak for this group, so it does not count.
  const root = callerOf(gateway, await provider.token({ sub: 'rot', groups: ['root'] }));
  expect(await root('POST', '/v1/catalogs/shop/connect', {})).toMatchObject({ status: 404 });
  const connected = await ben<{ refresh: number }>('POST', '/v1/catalogs/shop/connect', {});
  expect(connected).toMatchObject({ status: 200, body: { status: 'applied', policyVersion: 1 } });
  const catalog = world.countersign.catalog('shop');
  await catalog.settled(connected.body.refresh);
  const changes = [{ tool: 'pay', requiresApproval: false }];
  const asked = await ben<{ changeId: string }>('POST', '/v1/catalogs/shop/tools', { expectedVersion: 1, changes });
  expect(asked).toMatchObject({ status: 200, body: { status: 'waiting' } });
  const [pending] = (await catalog.snapshot()).pending;
  const said = { digest: pending?.digest, verdict: 'approve' };
  const path = `/v1/catalogs/shop/changes/${asked.body.changeId}/decisions`;
  expect(await ben('POST', path, said)).toMatchObject({ status: 403, body: { code: 'APPROVER_NOT_ENTITLED' } });
  expect(await fin('POST', path, said)).toMatchObject({ status: 200, body: { status: 'applied', policyVersion: 2 } });
  const [policy] = factsOf(await catalog.ledger(), 'catalog.policy');
  expect(policy).toMatchObject({
    by: { id: `${provider.issuer}|ben` },
    countersignedBy: { id: `${provider.issuer}|fin` },
    signature: { kid: 'gateway-1' },
    countersignature: { kid: 'gateway-1' },
  });
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

/** Consent to scopes was given, and before the call goes on policy asks others (INV-S2, D-5). */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { type RunningAuthorizationServer, startProvider } from '../support/oauth/provider.ts';
import { factsOf, outcomes } from '../support/world/run-record.ts';
import { authorizationOf, wantedFor, wants } from '../support/scenes/authorizations.ts';
import { startWorld, type World } from '../support/world/world.ts';

const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };
let server: RawServer;
let provider: RunningAuthorizationServer;
let world: World;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  server = await startRawServer({ era: 'modern', tools: { admin: wants('notes:admin') } });
  provider = await startProvider({ clients: [CLIENT], resources: { [server.url]: 'notes:read notes:admin' } });
  const client = { kind: 'client-credentials' as const, clientId: CLIENT.id, clientSecret: CLIENT.secret };
  const scopes = { discovery: ['notes:read'], default: ['notes:read'], consentable: ['notes:admin'] };
  const credentials = { ...client, issuer: provider.issuer, scopes };
  const policy = { approvers: { ids: ['ann', 'bob'] }, servers: { notes: { default: 'allow' as const } } };
  world = await startWorld({ config: { servers: { notes: { url: server.url, credentials } }, policy } });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  await Promise.all([server?.close(), provider?.close()]);
  jest.restoreAllMocks();
});

test('consent of somebody whom it asks no more widens no token: those whom it asks now are asked, and one of them gives it', async () => {
  const run = await world.start([{ calls: [{ tool: 'notes/admin' }] }, { text: 'done' }], {
    servers: [{ name: 'notes' }],
  });
  const first = await wantedFor(run);
  const before = world.config.policy;
  world.config.policy = { ...before, approvers: { ids: ['eve'], groups: [] } };
  try {
    await run.authorize(authorizationOf(first, 'bob', { kind: 'consent' }));
    const second = await wantedFor(run, 't1.c0', 2);
    expect(second.approvers).toMatchObject({ allOf: [{ ids: ['eve'] }] });
    await run.authorize(authorizationOf(second, 'eve', { kind: 'consent' }));
    await run.result();
  } finally {
    world.config.policy = before;
  }
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  const seen = server.seen.filter(({ headers }) => headers['idempotency-key'] !== undefined);
  const scopes = seen.map(({ headers: { authorization = '' } }) => decodeJwt(authorization.slice(7))['scope']);
  expect(scopes).toEqual(['notes:read', 'notes:read', 'notes:read notes:admin']);
  expect(factsOf(await run.ledger(), 'authorization.given')).toMatchObject([
    { approver: { id: 'bob' } },
    { approver: { id: 'eve' } },
  ]);
});

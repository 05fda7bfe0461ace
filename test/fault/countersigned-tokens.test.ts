/**
 * Tokens of our own and exchanged ones, from a decision to servers that verify them (INV-S1, INV-S2, S1.5, F13, F15): only exactly
 * the call that was countersigned is executed, and what a caller sealed never reaches a tool server.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { IssuedClaims } from '../../contracts/schemas/issued-claims.ts';
import { hashOf } from '../../domain/canonical.ts';
import { freePort } from '../../workers/free-port.ts';
import { sightingsInHistory } from '../support/canary-stores.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type GuardedServer, sendCall, startGuardedServer } from '../support/guarded-server.ts';
import { zoneKey } from '../support/keys.ts';
import { EXCHANGE, exchangeGrant, identity } from '../support/oauth-grants.ts';
import { type RunningProvider, startProvider } from '../support/oauth.ts';
import { factsOf, outcomes, replayOwn } from '../support/run-record.ts';
import { signingKey } from '../support/signing-key.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

const LONG_MS = 120_000;
const ISSUER = 'https://countersign.example.com';
const SCOPES = { discovery: ['list'], default: ['look'], tools: { pay: ['pay'] } };
const AT_SERVER = { 'tools/list': 'list', look: 'look', pay: 'pay' };
const PAYMENT = { amount: 5, to: 'ben', note: 'é €' };

let engine: TestEngine;
let provider: RunningProvider;
let bank: GuardedServer;
let other: GuardedServer;
let desk: GuardedServer;
let world: World;
let health: string;
let assertion: string;
let run: RunHandle;
let request: ApprovalRequest;
/** All that tool servers received for the run, and nothing that a test sent itself. */
let received: string;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  engine = await startEngine();
  const port = await freePort();
  health = `http://127.0.0.1:${port}`;
  const keysUrl = () => `${health}/.well-known/jwks.json`;
  const rules = { issuer: ISSUER, keysUrl, scopes: AT_SERVER, countersigned: { pay: ['bob'], look: [] } };
  [bank, other] = await Promise.all([startGuardedServer(rules), startGuardedServer(rules)]);
  const [first, second, clientKey, people, zone] = await Promise.all([
    signingKey('issuer-1'),
    signingKey('issuer-2', 'EdDSA'),
    signingKey('client-1'),
    identity(),
    zoneKey(),
  ]);
  for (const key of [first, second, clientKey])
    await writeFile(join(engine.directory, key.config.privateKeyFile), key.pem);
  await writeFile(join(engine.directory, 'zone.pem'), zone.pem);
  const resources: Record<string, string> = {};
  provider = await startProvider({
    clients: [
      { id: 'countersign', authMethod: 'private_key_jwt', publicJwk: clientKey.publicJwk, grantTypes: [EXCHANGE] },
    ],
    resources,
    scopes: ['list', 'look', 'pay'],
    grants: { [EXCHANGE]: exchangeGrant({ people, resources, actor: clientKey.publicJwk }) },
  });
  desk = await startGuardedServer({
    issuer: provider.issuer,
    keysUrl: () => `${provider.issuer}/jwks`,
    scopes: AT_SERVER,
  });
  resources[desk.url] = 'list look pay';
  assertion = await people.assertion('ann@example.com', provider.issuer);
  const exchanged = { issuer: provider.issuer, clientId: 'countersign', clientKey: clientKey.config, scopes: SCOPES };
  world = await startWorld({
    engine,
    config: {
      servers: {
        bank: { url: bank.url, credentials: { kind: 'issued', scopes: SCOPES } },
        desk: { url: desk.url, credentials: { kind: 'token-exchange', ...exchanged, revoke: true } },
      },
      issuer: { url: ISSUER, keys: [first.config, second.config], lifetimeSeconds: 90 },
      health: { port },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      policy: {
        givenTokens: 'deny',
        approvers: { ids: ['bob'] },
        servers: { bank: { default: 'allow', tools: { pay: 'ask' } }, desk: { default: 'allow' } },
      },
    },
    client: { servers: { desk: { url: desk.url, key: zone.publicJwk } } },
  });
  const calls = [
    { tool: 'bank/pay', arguments: PAYMENT },
    { tool: 'bank/look', arguments: {} },
    { tool: 'desk/pay', arguments: {} },
  ];
  run = await world.start([{ calls }, { text: 'Done.' }], {}, { authorizations: { desk: assertion } });
  const [open] = await openRequests(run);
  if (open === undefined) throw new Error('there is no request');
  request = open;
  await run.decide(decisionOn(request, 'bob'));
  await run.result();
  received = `${bank.received()}\n${desk.received()}`;
}, LONG_MS);

afterAll(async () => {
  await world?.stop();
  await Promise.all([engine?.stop(), bank?.close(), other?.close(), desk?.close(), provider?.close()]);
  jest.restoreAllMocks();
});

/** Tokens under which this was asked of a server, in order. */
function tokensOf(server: GuardedServer, method: string, tool?: string): string[] {
  return server.seen.filter((each) => each.method === method && each.tool === tool).map(({ token }) => token);
}

function claimsOf(token: string | undefined): IssuedClaims {
  return IssuedClaims.parse(decodeJwt(token ?? ''));
}

test('each call was executed once, by servers that take no other', async () => {
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded', 't1.c2': 'succeeded' });
  expect(bank.calls).toHaveLength(2);
  expect(bank.calls).toEqual(
    expect.arrayContaining([
      { tool: 'pay', arguments: PAYMENT },
      { tool: 'look', arguments: {} },
    ]),
  );
  expect(desk.calls).toEqual([{ tool: 'pay', arguments: {} }]);
});

test('RFC 9068, RFC 8693 §4.1: the token says for whom, for whose sake, for how long, and by whom exactly this call was approved', async () => {
  const [token] = tokensOf(bank, 'tools/call', 'pay');
  expect(decodeProtectedHeader(token ?? '')).toEqual({ alg: 'ES256', kid: 'issuer-1', typ: 'at+jwt' });
  const claims = claimsOf(token);
  const { exp, iat, jti, ...rest } = claims;
  expect(exp - iat).toBe(90);
  const described = await world.client.workflow.getHandle(run.runId).describe();
  expect(rest).toEqual({
    iss: ISSUER,
    sub: 'ann',
    aud: bank.url,
    client_id: 'countersign',
    scope: 'pay',
    act: { sub: 'countersign' },
    countersign: {
      namespace: 'default',
      run: run.runId,
      tenant: 'default',
      trust: 'temporal',
      call: {
        callId: 't1.c0',
        executionId: described.runId,
        tool: 'pay',
        definition: expect.stringMatching(/^[0-9a-f]{64}$/),
        arguments: hashOf(PAYMENT),
        consent: { kind: 'decision', digest: request.digest, approvers: ['bob'] },
      },
    },
  });
  expect(factsOf(await run.ledger(), 'outcome', 't1.c0')).toMatchObject([
    {
      token: {
        strategy: 'issued',
        issuer: ISSUER,
        jti,
        scopes: ['pay'],
        expiresAt: new Date(exp * 1_000).toISOString(),
      },
    },
  ]);
});

test('what policy let pass names no approver, and a listing names no call and has the scope of listings', () => {
  const look = claimsOf(tokensOf(bank, 'tools/call', 'look')[0]);
  expect(look.countersign.call?.consent).toEqual({ kind: 'policy', rules: expect.any(Array) });
  const listing = claimsOf(tokensOf(bank, 'tools/list')[0]);
  expect(listing).toMatchObject({ sub: 'ann', scope: 'list' });
  expect(listing.countersign.call).toBeUndefined();
});

test.each<[string, () => { url: string; token: string; tool: string; args: object }, number, RegExp]>([
  ['the same call again', () => ({ url: bank.url, token: paid(), tool: 'pay', args: PAYMENT }), 403, /was used/],
  [
    'other arguments',
    () => ({ url: bank.url, token: paid(), tool: 'pay', args: { ...PAYMENT, amount: 6 } }),
    403,
    /another call/,
  ],
  ['another tool', () => ({ url: bank.url, token: paid(), tool: 'look', args: {} }), 403, /scope/],
  [
    'another server of the same issuer (F15)',
    () => ({ url: other.url, token: paid(), tool: 'pay', args: PAYMENT }),
    401,
    /invalid_token/,
  ],
  [
    'the token of a call that nobody countersigned',
    () => ({ url: bank.url, token: looked(), tool: 'pay', args: PAYMENT }),
    403,
    /scope/,
  ],
  [
    'a signature that is not ours',
    () => ({ url: bank.url, token: `${paid().slice(0, -6)}AAAAAA`, tool: 'pay', args: PAYMENT }),
    401,
    /invalid_token/,
  ],
  ['what a caller sealed', () => ({ url: desk.url, token: assertion, tool: 'pay', args: {} }), 401, /invalid_token/],
])('INV-S2: whoever gets hold of a token is refused with it: %s', async (_what, attack, status, reason) => {
  const { url, token, tool, args } = attack();
  const before = bank.calls.length + other.calls.length + desk.calls.length;
  const answer = await sendCall(url, token, tool, args);
  expect(answer.status).toBe(status);
  expect(answer.text).toMatch(reason);
  expect(bank.calls.length + other.calls.length + desk.calls.length).toBe(before);
});

function paid(): string {
  return tokensOf(bank, 'tools/call', 'pay')[0] ?? '';
}

function looked(): string {
  return tokensOf(bank, 'tools/call', 'look')[0] ?? '';
}

test('no token passthrough: the assertion of the caller is exchanged for each call, and no tool server ever sees it', () => {
  const [token] = tokensOf(desk, 'tools/call', 'pay');
  expect(decodeJwt(token ?? '')).toMatchObject({
    sub: 'ann@example.com',
    aud: desk.url,
    scope: 'pay',
    act: { sub: 'countersign' },
  });
  expect(received).not.toContain(assertion.split('.')[2]);
  // Control: the token itself is found there.
  expect(received).toContain(token);
});

test('INV-S1: no token, assertion or what we signed stands in the history, and the run replays', async () => {
  const tokens = [...bank.seen, ...desk.seen].map(({ token }) => token);
  const shown = provider.seen.flatMap(({ form }) =>
    ['actor_token', 'client_assertion'].map((field) => form.get(field) ?? ''),
  );
  const values = [...new Set([...tokens, ...shown, assertion])].filter((value) => value !== '');
  expect(values.length).toBeGreaterThan(5);
  expect(await sightingsInHistory(world, run.runId, values)).toEqual([]);
  // Control: what stands in the same history is found.
  expect(await sightingsInHistory(world, run.runId, ['Do it.'])).not.toEqual([]);
  await replayOwn(world);
});

test('RFC 7517, RFC 8414: the worker publishes all public keys, nothing private, and says that it lives', async () => {
  const keys = await (await fetch(`${health}/.well-known/jwks.json`)).json();
  expect(keys).toEqual({
    keys: [
      {
        kty: 'EC',
        crv: 'P-256',
        x: expect.any(String),
        y: expect.any(String),
        kid: 'issuer-1',
        alg: 'ES256',
        use: 'sig',
      },
      { kty: 'OKP', crv: 'Ed25519', x: expect.any(String), kid: 'issuer-2', alg: 'EdDSA', use: 'sig' },
    ],
  });
  expect(await (await fetch(`${health}/.well-known/oauth-authorization-server`)).json()).toMatchObject({
    issuer: ISSUER,
    jwks_uri: `${ISSUER}/.well-known/jwks.json`,
  });
  expect((await fetch(`${health}/healthz`)).status).toBe(200);
  expect((await fetch(`${health}/issuer-1.pem`)).status).toBe(404);
  expect((await fetch(`${health}/healthz`, { method: 'POST' })).status).toBe(405);
});

test(
  'keys rotate: the one that was published before signs now, and servers take both',
  async () => {
    world.config.issuer?.keys.reverse();
    await world.restartWorkers();
    const next = await world.start([{ calls: [{ tool: 'bank/look', arguments: {} }] }, { text: 'Done.' }], {
      servers: [{ name: 'bank' }],
    });
    await next.result();
    expect(await outcomes(next)).toEqual({ 't1.c0': 'succeeded' });
    expect(decodeProtectedHeader(tokensOf(bank, 'tools/call', 'look').at(-1) ?? '')).toMatchObject({ kid: 'issuer-2' });
  },
  LONG_MS,
);

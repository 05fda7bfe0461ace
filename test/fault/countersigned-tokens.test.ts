/**
 * Tokens of our own and exchanged ones, from a decision to servers that verify them (INV-S1, INV-S2, S1.5, F13, F15):
 * only exactly the call that was countersigned is executed, and what a caller sealed never reaches a tool server.
 */
import { expect, jest, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { IssuedClaims } from '../../contracts/schemas/credentials.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { sightingsInHistory } from '../support/canary/stores.ts';
import {
  type GuardedServer,
  ISSUER,
  PAYMENT,
  sendCall,
  startCountersignedScene,
} from '../support/oauth/guarded-server.ts';
import { factsOf, outcomes, outcomesAtEnd, replayOwn, results } from '../support/world/run-record.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);

silenceProvider();
const scene = during(() => startCountersignedScene());

/** Tokens under which this was asked of a server, in order. */
function tokensOf(server: GuardedServer, method: string, tool?: string): string[] {
  return server.seen.filter((each) => each.method === method && each.tool === tool).map(({ token }) => token);
}

function claimsOf(token: string | undefined): IssuedClaims {
  return IssuedClaims.parse(decodeJwt(token ?? ''));
}

test('each call was executed once, by servers that take no other', async () => {
  expect(await outcomes(scene.run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded', 't1.c2': 'succeeded' });
  expect(scene.bank.calls).toHaveLength(2);
  expect(scene.bank.calls).toEqual(
    expect.arrayContaining([
      { tool: 'pay', arguments: PAYMENT },
      { tool: 'look', arguments: {} },
    ]),
  );
  expect(scene.desk.calls).toEqual([{ tool: 'pay', arguments: {} }]);
});

test('RFC 9068, RFC 8693 §4.1: the token says for whom, for whose sake, for how long, and by whom exactly this call was approved', async () => {
  const [token] = tokensOf(scene.bank, 'tools/call', 'pay');
  expect(decodeProtectedHeader(token ?? '')).toEqual({ alg: 'ES256', kid: 'issuer-1', typ: 'at+jwt' });
  const claims = claimsOf(token);
  const { exp, iat, jti, ...rest } = claims;
  expect(exp - iat).toBe(90);
  const described = await scene.world.client.workflow.getHandle(scene.run.runId).describe();
  expect(rest).toEqual({
    iss: ISSUER,
    sub: 'ann',
    aud: scene.bank.url,
    client_id: 'countersign',
    scope: 'pay',
    act: { sub: 'countersign' },
    countersign: {
      namespace: 'default',
      run: scene.run.runId,
      tenant: 'default',
      trust: 'temporal',
      call: {
        callId: 't1.c0',
        executionId: described.runId,
        tool: 'pay',
        definition: expect.stringMatching(/^[0-9a-f]{64}$/),
        arguments: hashOf(PAYMENT),
        consent: { kind: 'decision', digest: scene.request.digest, approvers: ['bob'] },
      },
    },
  });
  expect(factsOf(await scene.run.ledger(), 'outcome', 't1.c0')).toMatchObject([
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
  const look = claimsOf(tokensOf(scene.bank, 'tools/call', 'look')[0]);
  expect(look.countersign.call?.consent).toEqual({ kind: 'policy', rules: expect.any(Array) });
  const listing = claimsOf(tokensOf(scene.bank, 'tools/list')[0]);
  expect(listing).toMatchObject({ sub: 'ann', scope: 'list' });
  expect(listing.countersign.call).toBeUndefined();
});

test.each<[string, () => { url: string; token: string; tool: string; args: object }, number, RegExp]>([
  ['the same call again', () => ({ url: scene.bank.url, token: paid(), tool: 'pay', args: PAYMENT }), 403, /was used/],
  [
    'other arguments',
    () => ({ url: scene.bank.url, token: paid(), tool: 'pay', args: { ...PAYMENT, amount: 6 } }),
    403,
    /another call/,
  ],
  ['another tool', () => ({ url: scene.bank.url, token: paid(), tool: 'look', args: {} }), 403, /scope/],
  [
    'another server of the same issuer (F15)',
    () => ({ url: scene.other.url, token: paid(), tool: 'pay', args: PAYMENT }),
    401,
    /invalid_token/,
  ],
  [
    'the token of a call that nobody countersigned',
    () => ({ url: scene.bank.url, token: looked(), tool: 'pay', args: PAYMENT }),
    403,
    /scope/,
  ],
  [
    'a signature that is not ours',
    () => ({ url: scene.bank.url, token: `${paid().slice(0, -6)}AAAAAA`, tool: 'pay', args: PAYMENT }),
    401,
    /invalid_token/,
  ],
  [
    'what a caller sealed',
    () => ({ url: scene.desk.url, token: scene.assertion, tool: 'pay', args: {} }),
    401,
    /invalid_token/,
  ],
])('INV-S2: whoever gets hold of a token is refused with it: %s', async (_what, attack, status, reason) => {
  const { url, token, tool, args } = attack();
  const before = scene.bank.calls.length + scene.other.calls.length + scene.desk.calls.length;
  const answer = await sendCall(url, token, tool, args);
  expect(answer.status).toBe(status);
  expect(answer.text).toMatch(reason);
  expect(scene.bank.calls.length + scene.other.calls.length + scene.desk.calls.length).toBe(before);
});

function paid(): string {
  return tokensOf(scene.bank, 'tools/call', 'pay')[0] ?? '';
}

function looked(): string {
  return tokensOf(scene.bank, 'tools/call', 'look')[0] ?? '';
}

test('no token passthrough: the assertion of the caller is exchanged for each call, and no tool server ever sees it', () => {
  const [token] = tokensOf(scene.desk, 'tools/call', 'pay');
  expect(decodeJwt(token ?? '')).toMatchObject({
    sub: 'ann@example.com',
    aud: scene.desk.url,
    scope: 'pay',
    act: { sub: 'countersign' },
  });
  expect(scene.received).not.toContain(scene.assertion.split('.')[2]);
  // Control: the token itself is found there.
  expect(scene.received).toContain(token);
});

test('INV-S1: no token, assertion or what we signed stands in the history, and the run replays', async () => {
  const tokens = [...scene.bank.seen, ...scene.desk.seen].map(({ token }) => token);
  const shown = scene.provider.seen.flatMap(({ form }) =>
    ['actor_token', 'client_assertion'].map((field) => form.get(field) ?? ''),
  );
  const values = [...new Set([...tokens, ...shown, scene.assertion])].filter((value) => value !== '');
  expect(values.length).toBeGreaterThan(5);
  expect(await sightingsInHistory(scene.world, scene.run.runId, values)).toEqual([]);
  // Control: what stands in the same history is found.
  expect(await sightingsInHistory(scene.world, scene.run.runId, ['Do it.'])).not.toEqual([]);
  await replayOwn(scene.world);
});

test('RFC 7517, RFC 8414: the worker publishes all public keys, nothing private, and says that it lives', async () => {
  const keys = await (await fetch(`${scene.health}/.well-known/jwks.json`)).json();
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
  expect(await (await fetch(`${scene.health}/.well-known/oauth-authorization-server`)).json()).toMatchObject({
    issuer: ISSUER,
    jwks_uri: `${ISSUER}/.well-known/jwks.json`,
  });
  expect((await fetch(`${scene.health}/healthz`)).status).toBe(200);
  expect((await fetch(`${scene.health}/issuer-1.pem`)).status).toBe(404);
  expect((await fetch(`${scene.health}/healthz`, { method: 'POST' })).status).toBe(405);
});

test('a server that trusts another issuer is not followed there: the call has failed, unrun, and says why', async () => {
  const led = await scene.world.start([{ calls: [{ tool: 'strayed/look', arguments: {} }] }, { text: 'Done.' }], {
    servers: [{ name: 'strayed' }],
    // Nobody is asked: how it ends is what is looked at.
    policy: { missingAuthorization: 'fail' },
  });
  await led.result();
  const [{ outcome } = { outcome: undefined }] = await results(scene.world, led);
  expect(outcome).toMatchObject({
    kind: 'failed',
    code: 'TOOL_UNAUTHORIZED',
    executed: false,
    message: expect.stringMatching(/elsewhere\.example\.com.*never followed to another issuer/),
  });
  expect(scene.strayed.calls).toEqual([]);
  expect(tokensOf(scene.strayed, 'tools/call', 'look')).toHaveLength(1);
});

test('keys rotate: the one that was published before signs now, and servers take both', async () => {
  scene.world.config.issuer?.keys.reverse();
  await scene.world.restartWorkers();
  const next = await scene.world.start([{ calls: [{ tool: 'bank/look', arguments: {} }] }, { text: 'Done.' }], {
    servers: [{ name: 'bank' }],
  });
  expect(await outcomesAtEnd(next)).toEqual({ 't1.c0': 'succeeded' });
  expect(decodeProtectedHeader(tokensOf(scene.bank, 'tools/call', 'look').at(-1) ?? '')).toMatchObject({
    kid: 'issuer-2',
  });
});

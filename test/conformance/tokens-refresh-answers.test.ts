/** Refresh tokens at an authorization server that answers wrongly, late or never: what each answer proves of the token (INV-S1). */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createVaultEnvironment, type Vault } from '../../activities/vault/port.ts';
import { createMemoryVault, entryOf } from '../support/builders/vault.ts';
import { refusalOf } from '../support/keys-refusal.ts';
import { brokerFor, expectNoSecret, SECRET } from '../support/oauth-broker.ts';
import { type HostileAnswer, type HostileServer, startHostile } from '../support/oauth.ts';
import { putToken, REF, refreshConfig, vaultRequest, workerOf } from '../support/refresh-bench.ts';

const TOKEN = 'canary-refresh-0';
const good = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60, scope: 'notes:write' };

describe('a refresh token at a hostile authorization server', () => {
  let server: HostileServer;
  let vault: Vault;
  beforeEach(async () => {
    server = await startHostile({});
    vault = createMemoryVault();
    await putToken(vault, TOKEN, server.issuer);
  });
  afterEach(async () => server.close());

  const sent = (): (string | null)[] => server.seen.map(({ form }) => form.get('refresh_token'));
  const held = async () => (await vault.read(REF))?.entry;

  test.each<[string, HostileAnswer, string]>([
    ['429', { status: 429, body: {} }, 'TOKEN_UNAVAILABLE'],
    ['503 with Retry-After', { status: 503, headers: { 'retry-after': '1' }, body: {} }, 'TOKEN_UNAVAILABLE'],
    ['400 invalid_client', { status: 400, body: { error: 'invalid_client' } }, 'TOKEN_REFUSED'],
    ['400 temporarily_unavailable', { status: 400, body: { error: 'temporarily_unavailable' } }, 'TOKEN_UNAVAILABLE'],
    ['404', { status: 404, body: TOKEN }, 'TOKEN_REFUSED'],
    ['a redirect', { status: 307, headers: { location: '/token' }, body: {} }, 'TOKEN_REFUSED'],
  ])('%s proves that it was not used: it is as good as before', async (_, body, code) => {
    server.behave({ token: () => body });
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code });
    expectNoSecret(error, TOKEN, SECRET);
    expect(await held()).toMatchObject({ secret: { token: TOKEN } });
    expect((await held())?.renewal).toBeUndefined();
    server.behave({ token: () => ({ body: { ...good, refresh_token: 'canary-refresh-1' } }) });
    expect((await workerOf(vault, server.issuer).mint(vaultRequest())).accessToken).toBe('at-1');
    expect(await held()).toMatchObject({ secret: { token: 'canary-refresh-1' } });
  });

  test.each<[string, HostileAnswer | 'drop' | 'hang']>([
    ['500', { status: 500, body: {} }],
    ['502 of a proxy', { status: 502, body: '<html>' }],
    ['503 without Retry-After', { status: 503, body: {} }],
    ['a page in place of an answer', { body: '<html>' }],
    ['an answer without a token', { body: { refresh_token: 'canary-refresh-1' } }],
    ['a cut connection', 'drop'],
    ['no answer in time', 'hang'],
  ])('%s proves nothing: a single-use token is lost, and not sent again', async (_, answer) => {
    server.behave({ token: () => answer });
    const worker = workerOf(vault, server.issuer, {}, { timeoutMs: 500 });
    for (let tries = 0; tries < 3; tries += 1) {
      const error = await refusalOf(worker.mint(vaultRequest()));
      expect(error).toMatchObject({ code: 'GRANT_LOST' });
      expectNoSecret(error, TOKEN, SECRET);
    }
    expect(sent()).toEqual([TOKEN]);
  });

  test('F10: an issuer that closes idle connections costs no grant: a refresh token never rides on one', async () => {
    let given = 0;
    const next = () => ({ body: { ...good, access_token: `at-${(given += 1)}`, refresh_token: `canary-${given}` } });
    server.behave({ closesIdle: true, token: next });
    const worker = workerOf(vault, server.issuer);
    for (let calls = 1; calls <= 3; calls += 1)
      expect((await worker.mint(vaultRequest())).accessToken).toBe(`at-${calls}`);
    expect(sent()).toEqual([TOKEN, 'canary-1', 'canary-2']);
  });

  test.each<[string, HostileAnswer | 'drop']>([
    ['500', { status: 500, body: {} }],
    ['a cut connection', 'drop'],
  ])('%s: a token that its issuer does not replace is used again', async (_, answer) => {
    server.behave({ token: () => answer });
    const worker = workerOf(vault, server.issuer, { refreshTokens: 'reusable' });
    expect(await refusalOf(worker.mint(vaultRequest()))).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
    server.behave({ token: () => ({ body: good }) });
    expect((await worker.mint(vaultRequest())).accessToken).toBe('at-1');
    expect(sent()).toEqual([TOKEN, TOKEN]);
  });

  test('a reusable token is used from an environment, which can keep nothing', async () => {
    server.behave({ token: () => ({ body: { ...good, refresh_token: 'canary-refresh-1' } }) });
    const secret = { kind: 'refresh-token' as const, token: TOKEN, issuer: server.issuer };
    const environment = createVaultEnvironment({ [REF]: 'ANN' }, { ANN: JSON.stringify(entryOf({ secret })) });
    const worker = workerOf(environment, server.issuer, { refreshTokens: 'reusable' });
    for (let calls = 0; calls < 2; calls += 1) await worker.mint(vaultRequest());
    expect(sent()).toEqual([TOKEN, TOKEN]);
    // And a single-use one is not sent from there at all.
    const careless = workerOf(environment, server.issuer);
    expect(await refusalOf(careless.mint(vaultRequest()))).toMatchObject({ code: 'TOKEN_REFUSED' });
    expect(sent()).toHaveLength(2);
  });

  test('what replaced the token is kept also where the token for the call is refused', async () => {
    const wide = { ...good, scope: 'notes:write admin', refresh_token: 'canary-refresh-1' };
    server.behave({ token: () => ({ body: wide }) });
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringContaining('wider') });
    expect(await held()).toMatchObject({ secret: { token: 'canary-refresh-1' } });
  });

  test('an answer that replaces nothing leaves the token, and the end of the grant is noted where it is said', async () => {
    const now = Date.parse('2026-03-01T00:00:00.000Z');
    server.behave({ token: () => ({ body: { ...good, refresh_token_expires_in: 3_600 } }) });
    await workerOf(vault, server.issuer, {}, { now: () => now }).mint(vaultRequest());
    expect(await held()).toMatchObject({ secret: { token: TOKEN }, expiresAt: '2026-03-01T01:00:00.000Z' });
    for (const nonsense of ['soon', -1, 1e300]) {
      server.behave({ token: () => ({ body: { ...good, refresh_token_expires_in: nonsense } }) });
      await workerOf(vault, server.issuer, {}, { now: () => now }).mint(vaultRequest());
      expect(await held()).toMatchObject({ expiresAt: '2026-03-01T01:00:00.000Z' });
    }
  });

  test('an issuer that cannot be reached costs nothing', async () => {
    await server.close();
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
    expect((await held())?.renewal).toBeUndefined();
  });

  test('a token endpoint that may not be contacted is sent nothing, and the token is as good as before', async () => {
    const metadata = { issuer: server.issuer, token_endpoint: 'https://elsewhere.example.com/token' };
    server.behave({ metadata: () => ({ body: metadata }) });
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code: 'EGRESS_FORBIDDEN' });
    expectNoSecret(error, TOKEN, SECRET);
    expect(await held()).toMatchObject({ secret: { token: TOKEN } });
    expect((await held())?.renewal).toBeUndefined();
  });

  test('INV-S1: metadata with a token endpoint without TLS are sent nothing', async () => {
    const metadata = { issuer: server.issuer, token_endpoint: 'http://evil.example.com/token' };
    server.behave({ metadata: () => ({ body: metadata }) });
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED' });
    expect((await held())?.renewal).toBeUndefined();
  });

  test('a worker without a vault sends nothing, and says what is missing', async () => {
    expect(await refusalOf(brokerFor(refreshConfig(server.issuer)).mint(vaultRequest()))).toMatchObject({
      code: 'TOKEN_REFUSED',
      message: expect.stringContaining('vault in countersign.yaml'),
    });
  });
});

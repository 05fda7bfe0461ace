/**
 * Refresh tokens of a vault at an authorization server that we did not write, which lets each be used once (RFC 9700
 * §4.14.2), and at one that answers wrongly. One file, because both prove what a use says of the token.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { createVaultEnvironment, type Vault } from '../../activities/vault/port.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { createMemoryVault, entryOf } from '../support/builders/vault.ts';
import { brokerFor, CLIENT, expectNoSecret, SECRET, URL_OF } from '../support/oauth/broker.ts';
import { type HostileAnswer, type HostileServer, startHostile } from '../support/oauth/provider.ts';
import {
  putToken,
  putTokenFor,
  REF,
  refreshConfig,
  SCOPES,
  vaultFolder,
  vaultRequest,
  workerOf,
} from '../support/oauth/refresh-bench.ts';
import { type RefreshProvider, startRefreshProvider } from '../support/oauth/refresh-provider.ts';
import { withCode, refusalOf } from '../support/refusal.ts';
import { programArgs } from '../support/program.ts';
import { describeTokens, silenceProvider } from './tokens.suite.ts';

silenceProvider();

const RESOURCES = { [URL_OF.notes]: `${SCOPES} notes:admin`, [URL_OF.files]: SCOPES };

describeTokens('a refresh token in the vault', async () => {
  const provider = await startRefreshProvider({ client: CLIENT, resources: RESOURCES });
  const vault = createMemoryVault();
  const token = await provider.grant('ann', SCOPES, URL_OF.notes);
  await putToken(vault, token, provider.issuer);
  return {
    broker: workerOf(vault, provider.issuer),
    request: async (run) => vaultRequest({}, run),
    strategy: 'refresh',
    canaries: [SECRET, token],
    afterRefusal: 'another token',
    close: async () => provider.close(),
  };
});

describe('refresh tokens', () => {
  let provider: RefreshProvider;
  let vault: Vault;
  let folder: Awaited<ReturnType<typeof vaultFolder>>;
  let first: string;
  beforeAll(async () => {
    provider = await startRefreshProvider({ client: CLIENT, resources: RESOURCES });
    folder = await vaultFolder();
  });
  afterAll(async () => {
    await provider.close();
    await folder.remove();
  });
  let before: number;
  beforeEach(async () => {
    vault = folder.open();
    first = await provider.grant('ann', SCOPES, URL_OF.notes);
    await putToken(vault, first, provider.issuer);
    before = provider.used.length;
  });
  const used = (): string[] => provider.used.slice(before).map(({ token }) => token);
  const held = async () => (await vault.read(REF))?.entry;

  test.each([
    ['write', ['notes:write']],
    [undefined, ['notes:read']],
  ])('INV-S2: the token for %s is for this server and these scopes, and no more', async (tool, scopes) => {
    const request = vaultRequest();
    const { tool: _, ...listing } = request;
    const { accessToken, evidence, secrets } = await workerOf(vault, provider.issuer).mint(
      tool === undefined ? listing : { ...request, tool },
    );
    expect(decodeJwt(accessToken ?? '')).toMatchObject({ aud: URL_OF.notes, sub: 'ann', scope: scopes.join(' ') });
    expect(evidence).toMatchObject({ strategy: 'refresh', issuer: provider.issuer, scopes });
    // Both refresh tokens may be echoed by whoever has seen them (INV-S1).
    expect(secrets).toEqual(expect.arrayContaining([first, (await held())?.secret.token, accessToken, SECRET]));
    expect(used()).toEqual([first]);
  });

  test('F10: of two workers with twenty calls at once each refresh token is used once, and every call has a token of its own', async () => {
    const workers = [workerOf(folder.open(), provider.issuer), workerOf(folder.open(), provider.issuer)];
    const minted = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => await workers[index % 2]?.mint(vaultRequest())),
    );
    expect(new Set(minted.map((token) => token?.accessToken)).size).toBe(20);
    expect(new Set(used()).size).toBe(20);
    expect(used()).toHaveLength(20);
    expect((await held())?.renewal).toBeUndefined();
  });

  test('F10: of two worker processes too', async () => {
    const outputs = await Promise.all([8, 8].map(async (count) => await text(startWorker(count).stdout)));
    const lines = outputs.flatMap((output) => output.trim().split('\n'));
    expect(lines.filter((line) => line.startsWith('minted '))).toHaveLength(16);
    expect(new Set(lines).size).toBe(16);
    expect(new Set(used()).size).toBe(16);
  });

  test('F10, INV-D3: a worker that dies between the answer and the write has lost the grant: said so, not tried again', async () => {
    const { arrived, release } = provider.next('hold');
    const worker = startWorker(1);
    await arrived;
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    release();
    expect((await held())?.renewal).toBeDefined();
    // Another worker, when the lease is over.
    const later = workerOf(vault, provider.issuer, {}, { now: () => Date.now() + 120_000 });
    for (let tries = 0; tries < 3; tries += 1) {
      const error = await refusalOf(later.mint(vaultRequest()));
      expect(error).toMatchObject({ code: 'GRANT_LOST', traits: { retryable: false } });
      expectNoSecret(error, first, SECRET);
    }
    expect(used()).toEqual([first]);
    await putToken(vault, await provider.grant('ann', SCOPES, URL_OF.notes), provider.issuer);
    expect((await later.mint(vaultRequest())).accessToken).toBeDefined();
  });

  test('an answer that is lost on the way is a lost grant at once: nobody waits for it', async () => {
    provider.next('lose');
    const worker = workerOf(vault, provider.issuer);
    expect(await refusalOf(worker.mint(vaultRequest()))).toMatchObject({ code: 'GRANT_LOST' });
    expect(await refusalOf(worker.mint(vaultRequest()))).toMatchObject({ code: 'GRANT_LOST' });
    expect(used()).toEqual([first]);
  });

  test('a worker that is late, but has its answer, writes it: the grant is found again', async () => {
    const { arrived, release } = provider.next('hold');
    const minting = workerOf(vault, provider.issuer).mint(vaultRequest());
    await arrived;
    const other = workerOf(folder.open(), provider.issuer, {}, { now: () => Date.now() + 120_000 });
    expect(await refusalOf(other.mint(vaultRequest()))).toMatchObject({ code: 'GRANT_LOST' });
    release();
    expect((await minting).accessToken).toBeDefined();
    expect((await other.mint(vaultRequest())).accessToken).toBeDefined();
    expect(new Set(used()).size).toBe(2);
  });

  test('a worker that is late writes nothing over a grant that somebody has put meanwhile', async () => {
    const { arrived, release } = provider.next('hold');
    const minting = workerOf(vault, provider.issuer).mint(vaultRequest());
    await arrived;
    const fresh = await provider.grant('ann', SCOPES, URL_OF.notes);
    await putToken(folder.open(), fresh, provider.issuer);
    release();
    // What was obtained is good for this call.
    expect((await minting).accessToken).toBeDefined();
    expect((await held())?.secret.token).toBe(fresh);
  });

  test('INV-D3: a call that nobody wants any more does not lose the grant', async () => {
    const { arrived, release } = provider.next('hold');
    const ended = new AbortController();
    const worker = workerOf(vault, provider.issuer);
    const minting = worker.mint(vaultRequest({ signal: ended.signal }));
    await arrived;
    ended.abort();
    release();
    await minting;
    expect((await held())?.renewal).toBeUndefined();
    await refusalOf(worker.mint(vaultRequest({ signal: ended.signal })));
    expect(used()).toEqual([first]);
    expect((await worker.mint(vaultRequest())).accessToken).toBeDefined();
  });

  test('who waits for another worker waits as long as there is time, and may try again', async () => {
    const { arrived, release } = provider.next('hold');
    const minting = workerOf(vault, provider.issuer).mint(vaultRequest());
    await arrived;
    const impatient = workerOf(folder.open(), provider.issuer, {}, { timeoutMs: 50 });
    expect(await refusalOf(impatient.mint(vaultRequest()))).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
    release();
    await minting;
    expect(used()).toEqual([first]);
  });

  test('a vault that is away when the answer comes is tried until it is back: what came exists nowhere else', async () => {
    const memory = createMemoryVault();
    await putToken(memory, first, provider.issuer);
    const { arrived, release } = provider.next('hold');
    const minting = workerOf(memory, provider.issuer).mint(vaultRequest());
    await arrived;
    memory.failWrites(3, new CountersignError('VAULT_UNAVAILABLE', 'away'));
    release();
    await minting;
    const entry = (await memory.read(REF))?.entry;
    expect(entry?.secret.token).not.toBe(first);
    expect(entry?.renewal).toBeUndefined();
  });

  test('a vault that is away before anything is sent may pass, and nothing was sent', async () => {
    const memory = createMemoryVault();
    await putToken(memory, first, provider.issuer);
    memory.failWrites(1, new CountersignError('VAULT_UNAVAILABLE', 'away'));
    const worker = workerOf(memory, provider.issuer);
    expect(await refusalOf(worker.mint(vaultRequest()))).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
    expect(used()).toEqual([]);
    expect((await worker.mint(vaultRequest())).accessToken).toBeDefined();
  });

  test('a scope that the user has not granted is refused, and the grant is as good as before', async () => {
    const worker = workerOf(vault, provider.issuer);
    expect(await refusalOf(worker.mint(vaultRequest({ tool: 'admin' })))).toMatchObject({ code: 'TOKEN_REFUSED' });
    expect(await held()).toMatchObject({ secret: { token: first } });
    expect((await worker.mint(vaultRequest())).accessToken).toBeDefined();
  });

  test('a token that its issuer refuses for good is not sent again', async () => {
    await putToken(vault, 'never-given', provider.issuer);
    const worker = workerOf(vault, provider.issuer);
    const refused = await refusalOf(worker.mint(vaultRequest()));
    expect(refused).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringMatching(/invalid_grant\. .*anew/) });
    expect(await refusalOf(worker.mint(vaultRequest()))).toMatchObject({ code: 'TOKEN_REFUSED' });
    expect(used()).toEqual(['never-given']);
    expect((await held())?.refusedAt).toBeDefined();
  });

  const OTHER = { id: 'bob', tenant: 'default' };
  test.each([
    ['another initiator', { initiator: OTHER }, 'GRANT_INVALID'],
    ['another tenant', { initiator: { id: 'ann', tenant: 'acme' } }, 'GRANT_INVALID'],
    ['nobody, as a catalog', { initiator: undefined }, 'GRANT_INVALID'],
    [
      'another server',
      { server: 'files', serverUrl: URL_OF.files, grant: { server: 'files', ref: REF } },
      'GRANT_INVALID',
    ],
    ['a grant for another server', { grant: { server: 'files', ref: REF } }, 'GRANT_INVALID'],
    ['a name of nothing', { grant: { server: 'notes', ref: 'constructor' } }, 'GRANT_INVALID'],
    ['no grant', { grant: undefined }, 'GRANT_MISSING'],
  ])('F15, INV-S2: for %s nothing is sent', async (_, over, code) => {
    const { grant, initiator, ...rest } = { ...vaultRequest(), ...over };
    const request = { ...rest, ...(grant && { grant }), ...(initiator && { initiator }) };
    const error = await refusalOf(workerOf(vault, provider.issuer).mint(request));
    expect(error).toMatchObject({ code });
    expectNoSecret(error, first, SECRET);
    expect(used()).toEqual([]);
    expect(await held()).toMatchObject({ secret: { token: first } });
  });

  test('what a run learns of an entry of somebody else is what it learns of none', async () => {
    const worker = workerOf(vault, provider.issuer);
    const theirs = await refusalOf(worker.mint(vaultRequest({ initiator: OTHER })));
    const none = await refusalOf(worker.mint(vaultRequest({ grant: { server: 'notes', ref: 'none' } })));
    expect(theirs.message).toBe(none.message);
  });

  test.each([
    [
      'of another issuer',
      { secret: { kind: 'refresh-token' as const, token: 'x', issuer: 'https://a.example' } },
      'GRANT_INVALID',
    ],
    ['of another kind', { secret: { kind: 'token' as const, token: 'x' } }, 'GRANT_INVALID'],
    ['that has expired', { expiresAt: '2026-01-01T00:00:00.000Z' }, 'GRANT_EXPIRED'],
  ])('INV-S2: a secret %s is sent nowhere', async (_, over, code) => {
    const memory = createMemoryVault();
    const secret = { kind: 'refresh-token' as const, token: first, issuer: provider.issuer };
    await memory.write(REF, entryOf({ secret, ...over }), undefined);
    expect(await refusalOf(workerOf(memory, provider.issuer).mint(vaultRequest()))).toMatchObject({ code });
    expect(used()).toEqual([]);
  });

  function startWorker(count: number): ChildProcessByStdio<null, Readable, null> {
    const entry = programArgs('test/support/oauth/refresh-worker-entry.ts');
    return spawn(process.execPath, [...entry, folder.root, provider.issuer, String(count)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }
});

// Refresh tokens at an authorization server that answers wrongly, late or never: what each answer proves of the token
// (INV-S1).

const TOKEN = 'canary-refresh-0';
const good = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60, scope: 'notes:write' };

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const OTHERS_ID_TOKEN = `${base64url({ alg: 'RS256' })}.${base64url({ iss: 'https://other.example', aud: 'other' })}.AA`;

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
    expect(error).toMatchObject(withCode('TOKEN_REFUSED', 'wider'));
    expect(await held()).toMatchObject({ secret: { token: 'canary-refresh-1' } });
  });

  test.each<[string, object, string]>([
    ['has its scopes as a list', { scope: ['notes:write'] }, 'canary-refresh-1'],
    ['has an unknown token type', { token_type: 'mac' }, 'canary-refresh-1'],
    ['has an ID token for somebody else', { id_token: OTHERS_ID_TOKEN }, 'canary-refresh-1'],
    ['has no usable end, and replaces nothing', { expires_in: 'soon', refresh_token: undefined }, TOKEN],
  ])('an answer that is of no use but %s tells what becomes of the token: it is kept', async (_, over, kept) => {
    server.behave({ token: () => ({ body: { ...good, refresh_token: 'canary-refresh-1', ...over } }) });
    const worker = workerOf(vault, server.issuer);
    const error = await refusalOf(worker.mint(vaultRequest()));
    expect(error).toMatchObject(withCode('TOKEN_REFUSED', server.issuer));
    expectNoSecret(error, TOKEN, 'canary-refresh-1', SECRET);
    expect(await held()).toMatchObject({ secret: { token: kept } });
    expect((await held())?.renewal).toBeUndefined();
    server.behave({ token: () => ({ body: good }) });
    expect((await worker.mint(vaultRequest())).accessToken).toBe('at-1');
    expect(sent()).toEqual([TOKEN, kept]);
  });

  test.each([
    ['too long', 'x'.repeat(9_000)],
    ['of characters that no entry has', 'canary refresh 1'],
  ])('a replacement that is %s is lost, said so, and hides no other entry of the vault', async (_, replacement) => {
    const folder = await vaultFolder();
    try {
      const shared = folder.open();
      await putToken(shared, TOKEN, server.issuer);
      await putTokenFor(shared, 'canary-refresh-9', server.issuer, 'bob-notes', URL_OF.notes);
      server.behave({ token: () => ({ body: { ...good, refresh_token: replacement } }) });
      const error = await refusalOf(workerOf(shared, server.issuer).mint(vaultRequest()));
      expect(error).toMatchObject({ code: 'GRANT_LOST' });
      expectNoSecret(error, TOKEN, replacement, SECRET);
      expect((await shared.list()).map(({ ref }) => ref)).toEqual([REF, 'bob-notes']);
    } finally {
      await folder.remove();
    }
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

  test('a grant ends as its issuer has just said, not as it did before it was renewed', async () => {
    const now = Date.parse('2026-03-01T00:00:00.000Z');
    const worker = workerOf(vault, server.issuer, {}, { now: () => now });
    const ends = async (seconds: number | undefined) => {
      const body = { ...good, refresh_token: 'canary-refresh-1', refresh_token_expires_in: seconds };
      server.behave({ token: () => ({ body }) });
      return (await worker.mint(vaultRequest())).grantExpiresAt;
    };
    expect(await ends(undefined)).toBeUndefined();
    expect(await ends(3_600)).toBe('2026-03-01T01:00:00.000Z');
    expect(await ends(7_200)).toBe('2026-03-01T02:00:00.000Z');
    expect(await ends(undefined)).toBe('2026-03-01T02:00:00.000Z');
  });

  test('an issuer that cannot be reached costs nothing', async () => {
    await server.close();
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
    expect((await held())?.renewal).toBeUndefined();
  });

  test.each([
    ['may not be contacted', 'https://elsewhere.example.com/token', 'EGRESS_FORBIDDEN'],
    ['is without TLS', 'http://evil.example.com/token', 'EGRESS_FORBIDDEN'],
  ])('INV-S1: a token endpoint that %s is sent nothing, and the token is as good as before', async (_, url, code) => {
    server.behave({ metadata: (issuer) => ({ body: { issuer, token_endpoint: url } }) });
    const error = await refusalOf(workerOf(vault, server.issuer).mint(vaultRequest()));
    expect(error).toMatchObject({ code });
    expectNoSecret(error, TOKEN, SECRET);
    expect(await held()).toMatchObject({ secret: { token: TOKEN } });
    expect((await held())?.renewal).toBeUndefined();
  });

  test('a worker without a vault sends nothing, and says what is missing', async () => {
    expect(await refusalOf(brokerFor(refreshConfig(server.issuer)).mint(vaultRequest()))).toMatchObject(
      withCode('TOKEN_REFUSED', 'vault in countersign.yaml'),
    );
  });
});

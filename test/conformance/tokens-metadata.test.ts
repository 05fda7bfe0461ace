/** Client credentials at an authorization server whose metadata or second answer is not to be trusted (H-2, INV-S1). */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { CountersignError } from '../../contracts/errors.ts';
import { brokerFor, expectNoSecret, requestFor, SECRET, URL_OF, withClient } from '../support/oauth/broker.ts';
import { type HostileAnswer, type HostileServer, startHostile } from '../support/oauth/provider.ts';
import { withCode, refusalOf } from '../support/refusal.ts';

let server: HostileServer;
afterEach(async () => server.close());

const GOOD = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60 };

function jwt(claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'RS256' })}.${part(claims)}.c2ln`;
}

/** Starts a server that gives its GOOD answer with these changes, and a broker of its client. */
async function answering(over: object = {}, scopes: object = {}, rest: Parameters<typeof brokerFor>[1] = {}) {
  server = await startHostile({ token: () => ({ body: { ...GOOD, ...over } }) });
  return brokerFor(withClient(server.issuer, scopes), rest);
}

describe('metadata and repeated requests at a hostile authorization server', () => {
  test.each([
    ['another issuer', (issuer: string) => ({ issuer: 'https://evil.example.com', token_endpoint: `${issuer}/token` })],
    ['no token endpoint', (issuer: string) => ({ issuer })],
    ['a token endpoint without TLS', (issuer: string) => ({ issuer, token_endpoint: 'http://evil.example.com/token' })],
    ...[
      'https://169.254.169.254/latest',
      'https://10.1.2.3/token',
      'https://[::ffff:169.254.169.254]/token',
      'https://localhost:9/token',
    ].map((endpoint): [string, (issuer: string) => object] => [
      `a token endpoint at a private address, ${endpoint}`,
      (issuer) => ({ issuer, token_endpoint: endpoint }),
    ]),
    [
      'no way to send a secret',
      (issuer: string) => ({
        issuer,
        token_endpoint: `${issuer}/token`,
        token_endpoint_auth_methods_supported: ['private_key_jwt'],
      }),
    ],
  ])('INV-S1: metadata with %s send the client secret nowhere', async (what, metadata) => {
    server = await startHostile({ metadata: (issuer) => ({ body: metadata(issuer) }), token: () => ({ body: GOOD }) });
    const error = await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes')));
    expect(error.code).toBe(/private address|without TLS/.test(what) ? 'EGRESS_FORBIDDEN' : 'TOKEN_REFUSED');
    expect(server.seen).toHaveLength(0);
  });

  test('S1.6: a private address is named as such, and is not tried', async () => {
    server = await startHostile({
      metadata: (issuer) => ({ body: { issuer, token_endpoint: 'https://169.254.169.254/latest' } }),
    });
    const error = await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes')));
    expect(error.message).toContain('169.254.169.254 is the metadata service of a cloud');
  });

  test('a redirect of metadata is not followed', async () => {
    const elsewhere = await startHostile({ token: () => ({ body: GOOD }) });
    server = await startHostile({
      metadata: () => ({
        status: 302,
        headers: { location: `${elsewhere.issuer}/.well-known/oauth-authorization-server` },
        body: {},
      }),
    });
    const error = await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes')));
    expect(error.code).toBe('TOKEN_REFUSED');
    expect(elsewhere.discoveries()).toBe(0);
    await elsewhere.close();
  });

  test('metadata are found where OpenID Connect puts them too', async () => {
    server = await startHostile({ token: () => ({ body: GOOD }) });
    let asked = 0;
    server.behave({
      metadata: () => ((asked += 1) === 1 ? { status: 404, body: {} } : undefined),
      token: () => ({ body: GOOD }),
    });
    expect((await brokerFor(withClient(server.issuer)).mint(requestFor('notes'))).accessToken).toBe('at-1');
    expect(server.discoveries()).toBe(2);
  });

  test('metadata that led to a failure are asked for again', async () => {
    server = await startHostile({ token: () => ({ status: 404, body: {} }) });
    const broker = brokerFor(withClient(server.issuer));
    await refusalOf(broker.mint(requestFor('notes')));
    server.behave({ token: () => ({ body: GOOD }) });
    await broker.mint(requestFor('notes'));
    expect(server.discoveries()).toBe(2);
  });

  test('metadata are asked for once in five minutes for each server, and again after a refused token', async () => {
    let now = Date.now();
    let minted = 0;
    server = await startHostile({ token: () => ({ body: { ...GOOD, access_token: `at-${(minted += 1)}` } }) });
    const broker = brokerFor(withClient(server.issuer), { now: () => now });
    await broker.mint(requestFor('notes'));
    await broker.mint(requestFor('notes'));
    expect(server.discoveries()).toBe(1);
    await broker.mint({ ...requestFor('notes'), refused: 'at-1' });
    expect(server.discoveries()).toBe(2);
    now += 300_000;
    await broker.mint(requestFor('notes'));
    expect(server.discoveries()).toBe(3);
  });

  test('H-2: a server that gives the refused token again is refused itself, after one request', async () => {
    const error = await refusalOf((await answering()).mint({ ...requestFor('notes'), refused: 'at-1' }));
    expect(error.code).toBe('TOKEN_REFUSED');
    expect(server.seen).toHaveLength(1);
  });

  test('INV-S1: secrets put into jti or scope by the server are not recorded', async () => {
    const jti = Buffer.from(SECRET).toString('base64');
    const broker = await answering({ access_token: jwt({ jti }) });
    const { evidence } = await broker.mint(requestFor('notes'));
    expect(evidence.jti).toBeUndefined();
    server.behave({ token: () => ({ body: { ...GOOD, scope: encodeURIComponent(SECRET) } }) });
    expectNoSecret(await refusalOf(broker.mint(requestFor('notes'))), SECRET);
  });

  test('INV-S1: a refresh token that nobody asked for is scrubbed and not used', async () => {
    const minted = await (await answering({ refresh_token: 'rt-canary' })).mint(requestFor('notes'));
    expect(minted.secrets).toContain('rt-canary');
    expect(JSON.stringify(minted.evidence)).not.toContain('rt-canary');
  });

  test('a lifetime longer than ours is recorded as it is', async () => {
    const now = Date.parse('2026-03-01T00:00:00.000Z');
    const broker = await answering({ expires_in: '86400' }, {}, { now: () => now });
    const { evidence } = await broker.mint(requestFor('notes'));
    expect(evidence.expiresAt).toBe('2026-03-02T00:00:00.000Z');
  });
});

describe('client credentials at a hostile authorization server', () => {
  async function mintFrom(answer: HostileAnswer | 'hang' | 'drop', scopes: object = {}): Promise<CountersignError> {
    server = await startHostile({ token: () => answer });
    return refusalOf(brokerFor(withClient(server.issuer, scopes)).mint(requestFor('notes', 'x')));
  }

  test.each([
    ['in its answer', { ...GOOD, scope: 'read write admin' }],
    ['in an answer to a question for no scope', { ...GOOD, scope: 'admin' }],
    ['inside the token only', { ...GOOD, access_token: jwt({ scope: 'read admin' }) }],
    ['inside the token only, as a list', { ...GOOD, access_token: jwt({ scp: ['admin'] }) }],
  ])('INV-S2: a wider scope %s is refused', async (_where, body) => {
    const error = await mintFrom(
      { body },
      { default: 'scope' in body && body.scope === 'admin' ? [] : ['read', 'write'] },
    );
    expect(error).toMatchObject({
      code: 'TOKEN_REFUSED',
      message: expect.stringMatching(/wider than asked \(admin\)/),
    });
  });

  test.each([
    ['in its answer', (scope: string) => ({ ...GOOD, scope })],
    ['inside the token', (scope: string) => ({ ...GOOD, access_token: jwt({ scope }) })],
  ])('thousands of wider scopes %s hold up nothing: five are named', async (_where, answer) => {
    const scopes = Array.from({ length: 2_000 }, (_, index) => index.toString(36).padStart(3, 'x'));
    const asked = performance.now();
    const error = await mintFrom({ body: answer(scopes.join(' ')) }, { default: ['read'] });
    expect(error.message).toContain(`(${scopes.slice(0, 5).join(' ')})`);
    expect(performance.now() - asked).toBeLessThan(10_000);
  });

  test('INV-S2: a narrower scope is recorded as what was granted', async () => {
    const broker = await answering({ scope: 'read' }, { default: ['read', 'write'] });
    const { evidence } = await broker.mint(requestFor('notes', 'x'));
    expect(evidence.scopes).toEqual(['read']);
  });

  test.each([
    ['an opaque token', GOOD.access_token, {}],
    ['a token that says so of itself', jwt({ scope: '' }), { scopes: [] }],
  ])(
    'INV-S2: of scopes that nobody has named nothing is recorded, least of all that there are none: %s',
    async (_what, access_token, recorded) => {
      const { evidence } = await (await answering({ access_token })).mint(requestFor('notes', 'x'));
      expect('scopes' in evidence ? { scopes: evidence.scopes } : {}).toEqual(recorded);
    },
  );

  test.each([
    ['another issuer', { iss: 'https://evil.example.com' }],
    ['another audience', { aud: 'https://evil.example.com' }],
    ['our audience and others', { aud: [URL_OF.notes, 'https://evil.example.com'] }],
    ['no audience at all', { aud: [] }],
  ])('INV-S2: a token that names %s is refused', async (_what, claims) => {
    expect((await mintFrom({ body: { ...GOOD, access_token: jwt(claims) } })).code).toBe('TOKEN_REFUSED');
  });

  test.each([
    ['a token type that is not bearer', { ...GOOD, token_type: 'dpop' }],
    ['an unknown token type', { ...GOOD, token_type: 'canary' }],
    ['a token that would split a header', { ...GOOD, access_token: 'at\r\nX-Admin: 1' }],
    ['a token with a scheme before it', { ...GOOD, access_token: 'Bearer at-1' }],
    ['no token', { token_type: 'bearer' }],
    ['a token that is no text', { ...GOOD, access_token: 7 }],
    ['a scope that is no text', { ...GOOD, scope: ['read'] }],
    ['an expiry that is no number', { ...GOOD, expires_in: 'soon' }],
    ['a list', [GOOD]],
  ])('%s is refused', async (_what, body) => {
    expect((await mintFrom({ body })).code).toBe('TOKEN_REFUSED');
  });

  test.each([
    [400, { error: 'invalid_client', error_description: `secret ${SECRET} is wrong` }],
    [401, { error: 'invalid_client', error_description: SECRET }],
    [400, { error: SECRET }],
    [403, { [SECRET]: SECRET }],
    [404, SECRET],
    [302, { location: SECRET }],
  ])('S1.6, INV-S1: HTTP %i is a final refusal, and what it echoes is not repeated', async (status, body) => {
    const challenge = status === 401 ? { 'www-authenticate': `Basic realm="${encodeURIComponent(SECRET)}"` } : {};
    const headers = { ...challenge, location: 'http://127.0.0.1:9/' };
    const error = await mintFrom({ status, body, headers });
    expect(error.code).toBe('TOKEN_REFUSED');
    expectNoSecret(error, SECRET);
  });

  test('INV-S1: a redirect of the token request is not followed', async () => {
    const error = await mintFrom({ status: 307, headers: { location: '/token' }, body: {} });
    expect(error.code).toBe('TOKEN_REFUSED');
    expect(server.seen).toHaveLength(1);
  });

  test.each([
    [500, { error: 'invalid_client' }],
    [502, '<html>'],
    [503, {}],
    [429, { error: 'invalid_request' }],
    [400, { error: 'temporarily_unavailable' }],
    [200, '<html>a proxy</html>'],
  ])('S1.6: HTTP %i with %j may pass', async (status, body) => {
    expect((await mintFrom({ status, body })).code).toBe('TOKEN_UNAVAILABLE');
  });

  test('a cut connection may pass', async () => {
    expect((await mintFrom('drop')).code).toBe('TOKEN_UNAVAILABLE');
  });

  test('the time that a server asks to wait is handed on', async () => {
    const error = await mintFrom({ status: 503, headers: { 'retry-after': '7' }, body: {} });
    expect(error.facts).toMatchObject({ retryAfterMs: 7_000 });
  });

  test('a server that is not there may pass', async () => {
    server = await startHostile({});
    await server.close();
    const error = await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes')));
    expect(error).toMatchObject(withCode('TOKEN_UNAVAILABLE', 'ECONNREFUSED'));
  });

  test('a server that hangs is left as soon as the call is ended', async () => {
    server = await startHostile({ token: () => 'hang' });
    const ended = new AbortController();
    const minting = refusalOf(
      brokerFor(withClient(server.issuer)).mint({ ...requestFor('notes'), signal: ended.signal }),
    );
    await server.arrived;
    ended.abort();
    expect(await minting).toMatchObject(withCode('TOKEN_UNAVAILABLE', 'call was ended'));
  });

  test('a server that hangs is left at the time limit', async () => {
    server = await startHostile({ token: () => 'hang' });
    const error = await refusalOf(brokerFor(withClient(server.issuer), { timeoutMs: 100 }).mint(requestFor('notes')));
    expect(error).toMatchObject(withCode('TOKEN_UNAVAILABLE', 'in time'));
  });

  test('an endless answer is cut', async () => {
    const error = await mintFrom({ body: { ...GOOD, padding: 'x'.repeat(300_000) } });
    expect(error).toMatchObject(withCode('TOKEN_REFUSED', 'bytes'));
  });
});

/** Client credentials at an authorization server whose metadata or second answer is not to be trusted (H-2, INV-S1). */
import { afterEach, describe, expect, test } from '@jest/globals';
import { refusalOf } from '../support/keys-refusal.ts';
import { SECRET, brokerFor, expectNoSecret, requestFor, withClient } from '../support/oauth-broker.ts';
import { type HostileServer, startHostile } from '../support/oauth.ts';

describe('metadata and repeated requests at a hostile authorization server', () => {
  let server: HostileServer;
  afterEach(async () => server.close());

  const good = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60 };

  function jwt(claims: object): string {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    return `${part({ alg: 'RS256' })}.${part(claims)}.c2ln`;
  }

  test.each([
    ['another issuer', (issuer: string) => ({ issuer: 'https://evil.example.com', token_endpoint: `${issuer}/token` })],
    ['no token endpoint', (issuer: string) => ({ issuer })],
    ['a token endpoint without TLS', (issuer: string) => ({ issuer, token_endpoint: 'http://evil.example.com/token' })],
    ...[
      'https://169.254.169.254/latest',
      'https://10.1.2.3/token',
      'https://192.168.0.1./token',
      'https://2130706434/token',
      'https://0x7f.2/token',
      'https://[::1]/token',
      'https://[fd00::1]/token',
      'https://[::ffff:169.254.169.254]/token',
      'https://localhost:9/token',
      'https://admin.localhost/token',
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
    server = await startHostile({ metadata: (issuer) => ({ body: metadata(issuer) }), token: () => ({ body: good }) });
    const error = await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes')));
    expect(error.code).toBe(what.includes('private address') ? 'EGRESS_FORBIDDEN' : 'TOKEN_REFUSED');
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
    const elsewhere = await startHostile({ token: () => ({ body: good }) });
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
    server = await startHostile({ token: () => ({ body: good }) });
    let asked = 0;
    server.behave({
      metadata: () => ((asked += 1) === 1 ? { status: 404, body: {} } : undefined),
      token: () => ({ body: good }),
    });
    expect((await brokerFor(withClient(server.issuer)).mint(requestFor('notes'))).accessToken).toBe('at-1');
    expect(server.discoveries()).toBe(2);
  });

  test('metadata that led to a failure are asked for again', async () => {
    server = await startHostile({ token: () => ({ status: 404, body: {} }) });
    const broker = brokerFor(withClient(server.issuer));
    await refusalOf(broker.mint(requestFor('notes')));
    server.behave({ token: () => ({ body: good }) });
    await broker.mint(requestFor('notes'));
    expect(server.discoveries()).toBe(2);
  });

  test('metadata are asked for once in five minutes, and again after a refused token', async () => {
    let now = Date.now();
    let minted = 0;
    server = await startHostile({ token: () => ({ body: { ...good, access_token: `at-${(minted += 1)}` } }) });
    const broker = brokerFor(withClient(server.issuer), { now: () => now });
    await broker.mint(requestFor('notes'));
    await broker.mint(requestFor('files'));
    expect(server.discoveries()).toBe(1);
    await broker.mint({ ...requestFor('notes'), refused: 'at-1' });
    expect(server.discoveries()).toBe(2);
    now += 300_000;
    await broker.mint(requestFor('notes'));
    expect(server.discoveries()).toBe(3);
  });

  test('H-2: a server that gives the refused token again is refused itself, after one request', async () => {
    server = await startHostile({ token: () => ({ body: good }) });
    const error = await refusalOf(
      brokerFor(withClient(server.issuer)).mint({ ...requestFor('notes'), refused: 'at-1' }),
    );
    expect(error.code).toBe('TOKEN_REFUSED');
    expect(server.seen).toHaveLength(1);
  });

  test('INV-S1: secrets put into jti or scope by the server are not recorded', async () => {
    const jti = Buffer.from(SECRET).toString('base64');
    server = await startHostile({ token: () => ({ body: { ...good, access_token: jwt({ jti }) } }) });
    const { evidence } = await brokerFor(withClient(server.issuer)).mint(requestFor('notes'));
    expect(evidence.jti).toBeUndefined();
    server.behave({ token: () => ({ body: { ...good, scope: encodeURIComponent(SECRET) } }) });
    expectNoSecret(await refusalOf(brokerFor(withClient(server.issuer)).mint(requestFor('notes'))), SECRET);
  });

  test('INV-S1: a refresh token that nobody asked for is scrubbed and not used', async () => {
    server = await startHostile({ token: () => ({ body: { ...good, refresh_token: 'rt-canary' } }) });
    const minted = await brokerFor(withClient(server.issuer)).mint(requestFor('notes'));
    expect(minted.secrets).toContain('rt-canary');
    expect(JSON.stringify(minted.evidence)).not.toContain('rt-canary');
  });

  test('a lifetime longer than ours is recorded as it is', async () => {
    const now = Date.parse('2026-03-01T00:00:00.000Z');
    server = await startHostile({ token: () => ({ body: { ...good, expires_in: '86400' } }) });
    const { evidence } = await brokerFor(withClient(server.issuer), { now: () => now }).mint(requestFor('notes'));
    expect(evidence.expiresAt).toBe('2026-03-02T00:00:00.000Z');
  });
});

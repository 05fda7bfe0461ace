/** Client credentials at an authorization server that we did not write (RFC 6749 §4.4, RFC 8707, RFC 9068), and tokens that are ended with their call (RFC 7009). */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import type { MintedToken, TokenBroker } from '../../activities/tokens/port.ts';
import { brokerFor, CLIENT, expectNoSecret, requestFor, SECRET, URL_OF, withClient } from '../support/oauth/broker.ts';
import {
  type HostileBehaviour,
  type HostileServer,
  type RunningAuthorizationServer,
  type RunningProvider,
  startHostile,
  startProvider,
} from '../support/oauth/provider.ts';
import { refusalOf } from '../support/refusal.ts';
import { until } from '../support/until.ts';
import { silenceProvider } from './tokens.suite.ts';

silenceProvider();

/** Metadata of a server that takes the secret of a client in both ways. */
function takingBoth(more: object = {}): NonNullable<HostileBehaviour['metadata']> {
  return (issuer) => ({
    body: {
      issuer,
      token_endpoint: `${issuer}/token`,
      response_types_supported: [],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
      ...more,
    },
  });
}

describe('client credentials at a real authorization server', () => {
  let provider: RunningAuthorizationServer;
  let broker: TokenBroker;
  beforeAll(async () => {
    provider = await startProvider({
      clients: [{ ...CLIENT, scope: 'notes:read notes:write notes:delete files:read' }],
      resources: {
        [URL_OF.notes]: 'notes:read notes:write notes:delete admin',
        [URL_OF.files]: 'files:read notes:read',
      },
    });
    const tools = { delete: ['notes:delete'], ping: [], constructor: ['notes:read'] };
    broker = brokerFor(withClient(provider.issuer, { discovery: ['notes:read'], default: ['notes:write'], tools }));
  });
  afterAll(async () => provider.close());

  test.each([
    ['write', ['notes:write']],
    ['delete', ['notes:delete']],
    ['constructor', ['notes:read']],
    ['toString', ['notes:write']],
    ['ping', []],
    [undefined, ['notes:read']],
  ])('INV-S2: the token for the tool %s is for this server and these scopes, and no more', async (tool, scopes) => {
    const { accessToken, evidence } = await broker.mint(requestFor('notes', tool));
    const claims = decodeJwt(accessToken ?? '');
    expect(claims.aud).toBe(URL_OF.notes);
    expect(claims['scope'] ?? '').toBe(scopes.join(' '));
    expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(120);
    expect(evidence).toMatchObject({
      strategy: 'client-credentials',
      issuer: provider.issuer,
      jti: claims.jti,
    });
    // Where nobody has named one, none is recorded.
    expect(evidence.scopes ?? []).toEqual(scopes);
  });

  test('INV-S2: a token for one server is not a token for another (F15)', async () => {
    const files = brokerFor(withClient(provider.issuer, { default: ['notes:read'] }));
    const [one, two] = await Promise.all([files.mint(requestFor('notes', 'x')), files.mint(requestFor('files', 'x'))]);
    expect(decodeJwt(one.accessToken ?? '').aud).toBe(URL_OF.notes);
    expect(decodeJwt(two.accessToken ?? '').aud).toBe(URL_OF.files);
  });

  test('S1.5: each call has a token of its own, with its own id and expiry', async () => {
    const now = Date.now();
    const fixed = brokerFor(withClient(provider.issuer, { default: ['notes:write'] }), { now: () => now });
    const [one, two] = [await fixed.mint(requestFor('notes', 'write')), await fixed.mint(requestFor('notes', 'write'))];
    expect(one.evidence.jti).not.toBe(two.evidence.jti);
    expect(one.evidence.expiresAt).toBe(new Date(now + 120_000).toISOString());
  });

  test('sends resource and scope, and the client secret by Basic authentication (RFC 6749 §2.3.1, RFC 8707 §2)', async () => {
    const { secrets } = await broker.mint(requestFor('notes', 'delete'));
    const { authorization, form } = provider.seen.at(-1) ?? {};
    expect(form?.get('grant_type')).toBe('client_credentials');
    expect(form?.getAll('resource')).toEqual([URL_OF.notes]);
    expect(form?.get('scope')).toBe('notes:delete');
    expect(form?.has('client_secret')).toBe(false);
    expect(secrets).toContain(authorization?.replace('Basic ', ''));
    expect(secrets).toContain(SECRET);
  });

  test('asks for the configured resource where the server is known to the issuer by another URI', async () => {
    const renamed = brokerFor({
      servers: {
        notes: {
          ...withClient(provider.issuer, {}, { resource: `${URL_OF.files}#x` }).servers?.['notes'],
          url: URL_OF.notes,
        },
      },
    });
    const { accessToken } = await renamed.mint(requestFor('notes', 'x'));
    expect(decodeJwt(accessToken ?? '').aud).toBe(URL_OF.files);
  });

  test.each([
    ['invalid_target', requestFor('notes'), 'https://unknown.example.com/mcp', ['notes:read']],
    ['invalid_scope', requestFor('notes'), URL_OF.notes, ['admin']],
  ])('S1.6: %s is a final refusal', async (name, request, resource, discovery) => {
    const refusing = brokerFor(withClient(provider.issuer, { discovery }, { resource }));
    const error = await refusalOf(refusing.mint(request));
    expect(error).toMatchObject({
      code: 'TOKEN_REFUSED',
      message: expect.stringContaining(name),
      facts: { server: 'notes' },
    });
    expectNoSecret(error, SECRET);
  });

  test('S1.6: a wrong client secret is a final refusal that does not show the secret', async () => {
    const wrong = brokerFor(withClient(provider.issuer, {}, { clientSecret: 'canary-wrong' }));
    const error = await refusalOf(wrong.mint(requestFor('notes')));
    expect(error.code).toBe('TOKEN_REFUSED');
    expectNoSecret(error, 'canary-wrong');
  });

  test('INV-S2: a token whose audience is another resource is refused, not used', async () => {
    const lax = await startProvider({
      clients: [CLIENT],
      resources: { [URL_OF.notes]: 'notes:read' },
      audience: 'everything',
    });
    const error = await refusalOf(brokerFor(withClient(lax.issuer)).mint(requestFor('notes')));
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringContaining('another resource') });
    await lax.close();
  });

  test('an opaque token is used as it is', async () => {
    const opaque = await startProvider({
      clients: [CLIENT],
      resources: { [URL_OF.notes]: 'notes:read' },
      format: 'opaque',
    });
    const { accessToken, evidence } = await brokerFor(withClient(opaque.issuer, { discovery: ['notes:read'] })).mint(
      requestFor('notes'),
    );
    expect(accessToken).not.toContain('.');
    expect(evidence).toMatchObject({ scopes: ['notes:read'], expiresAt: expect.any(String) });
    expect(evidence.jti).toBeUndefined();
    await opaque.close();
  });

  test('the client secret goes into the body where the server takes it only there', async () => {
    const post = await startProvider({
      clients: [{ ...CLIENT, authMethod: 'client_secret_post' }],
      resources: { [URL_OF.notes]: 'notes:read' },
      authMethods: ['client_secret_post'],
    });
    await brokerFor(withClient(post.issuer)).mint(requestFor('notes'));
    expect(post.seen.at(-1)).toMatchObject({ authorization: undefined });
    expect(post.seen.at(-1)?.form.get('client_secret')).toBe(SECRET);
    await post.close();
  });

  test('and where it takes both from others, and knows this client by the body alone: at once from then on', async () => {
    const both = await startHostile({
      metadata: takingBoth(),
      token: ({ authorization, form }) =>
        authorization === undefined && form.get('client_secret') === SECRET
          ? { body: { access_token: 'opaque', token_type: 'Bearer', expires_in: 60 } }
          : { status: 401, headers: { 'www-authenticate': 'Basic realm="it"' }, body: { error: 'invalid_client' } },
    });
    let looked = 0;
    const ways = (): string[] => {
      const fresh = both.seen.slice(looked);
      looked = both.seen.length;
      return fresh.map(({ authorization }) => (authorization === undefined ? 'body' : 'basic'));
    };
    const registered = brokerFor(withClient(both.issuer));
    await Promise.all([registered.mint(requestFor('notes')), registered.mint(requestFor('notes', 'y'))]);
    expect(ways().toSorted()).toEqual(['basic', 'basic', 'body', 'body']);
    await registered.mint(requestFor('notes', 'x'));
    expect(ways()).toEqual(['body']);
    // A client that it knows in neither way is refused, and the next request begins as before.
    const unknown = brokerFor(withClient(both.issuer, {}, { clientSecret: 'another-secret' }));
    for (let times = 0; times < 2; times += 1) {
      expect((await refusalOf(unknown.mint(requestFor('notes')))).code).toBe('TOKEN_REFUSED');
      expect(ways()).toEqual(['basic', 'body']);
    }
    await both.close();
  });

  test('a challenge for the want of a nonce is no word about the client: the second request is in the same way', async () => {
    const strict = await startHostile({
      metadata: takingBoth({ dpop_signing_alg_values_supported: ['ES256'] }),
      token: ({ authorization, proof }) => {
        if (authorization === undefined) return { status: 401, body: { error: 'invalid_client' } };
        const headers = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n1' };
        return decodeJwt(proof ?? '')['nonce'] === 'n1'
          ? { body: { access_token: 'opaque', token_type: 'DPoP', expires_in: 60 } }
          : { status: 401, headers, body: { error: 'use_dpop_nonce' } };
      },
    });
    const bound = brokerFor(withClient(strict.issuer, {}, { senderConstrained: 'required' }));
    await expect(bound.mint(requestFor('notes'))).resolves.toMatchObject({ accessToken: 'opaque' });
    expect(strict.seen.map(({ authorization }) => typeof authorization)).toEqual(['string', 'string']);
    await strict.close();
  });
});

describe('revocation at a real authorization server', () => {
  let provider: RunningProvider;
  beforeAll(async () => {
    provider = await startProvider({
      clients: [CLIENT],
      resources: { [URL_OF.notes]: 'notes:read' },
      format: 'opaque',
    });
  });
  afterAll(async () => provider.close());

  async function isActive(token: string): Promise<boolean> {
    const basic = Buffer.from(`${CLIENT.id}:${encodeURIComponent(SECRET)}`).toString('base64');
    const answer = await fetch(`${provider.issuer}/token/introspection`, {
      method: 'POST',
      headers: { authorization: `Basic ${basic}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ token }),
    });
    const { active } = (await answer.json()) as { active?: unknown };
    if (typeof active !== 'boolean') throw new Error(`introspection answered ${answer.status}`);
    return active;
  }

  test('with revoke: true a released token is active no more', async () => {
    const broker = brokerFor(withClient(provider.issuer, {}, { revoke: true }));
    const minted = await broker.mint(requestFor('notes'));
    const token = minted.accessToken ?? '';
    expect(await isActive(token)).toBe(true);
    minted.release?.();
    await until(async () => !(await isActive(token)), { what: 'the end of the token' });
    const { form } = provider.elsewhere.find((each) => each.form.get('token_type_hint') !== null) ?? {};
    expect(form?.get('token')).toBe(token);
  });

  test('without it nothing is to be released', async () => {
    const minted = await brokerFor(withClient(provider.issuer)).mint(requestFor('notes'));
    expect(minted.release).toBeUndefined();
  });
});

describe('revocation elsewhere', () => {
  let server: HostileServer;
  afterEach(async () => server.close());

  const GOOD = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60 };

  async function mintAt(
    endpoint: (issuer: string) => string | undefined,
    warn: (message: string) => void,
  ): Promise<MintedToken> {
    server = await startHostile({
      metadata: (issuer) => ({
        body: { issuer, token_endpoint: `${issuer}/token`, revocation_endpoint: endpoint(issuer) },
      }),
      token: ({ form }) => (form.has('token') ? { status: 503, body: {} } : { body: GOOD }),
    });
    return brokerFor(withClient(server.issuer, {}, { revoke: true }), { warn }).mint(requestFor('notes'));
  }

  test('an issuer that cannot: nothing is sent, and nothing is said', async () => {
    const warn = jest.fn();
    const minted = await mintAt(() => undefined, warn);
    minted.release?.();
    // A second mint comes after what the first release could have sent.
    await brokerFor(withClient(server.issuer)).mint(requestFor('notes'));
    expect(server.seen.map(({ form }) => form.has('token'))).toEqual([false, false]);
    expect(warn).not.toHaveBeenCalled();
  });

  async function endedAt(answer: object): Promise<{ minted: MintedToken | undefined; ended: () => (string | null)[] }> {
    server = await startHostile({
      metadata: (issuer) => ({
        body: { issuer, token_endpoint: `${issuer}/token`, revocation_endpoint: `${issuer}/token` },
      }),
      token: ({ form }) => (form.has('token') ? { status: 200, body: {} } : { body: answer }),
    });
    const broker = brokerFor(withClient(server.issuer, {}, { revoke: true }));
    const minted = await broker.mint(requestFor('notes')).catch(() => undefined);
    return {
      minted,
      ended: () => server.seen.filter(({ form }) => form.has('token')).map(({ form }) => form.get('token')),
    };
  }

  test('a token that is wider than asked is not used, and ended at once', async () => {
    const { minted, ended } = await endedAt({ ...GOOD, scope: 'notes:read admin' });
    expect(minted).toBeUndefined();
    await until(() => ended().length > 0, { what: 'a revocation' });
    expect(ended()).toEqual(['at-1']);
  });

  test('a refresh token that nobody asked for is ended with the token, and not before', async () => {
    const { minted, ended } = await endedAt({ ...GOOD, refresh_token: 'rt-1' });
    expect(ended()).toEqual([]);
    minted?.release?.();
    await until(() => ended().length > 1, { what: 'two revocations' });
    expect(new Set(ended())).toEqual(new Set(['at-1', 'rt-1']));
  });

  test.each<[string, (issuer: string) => string]>([
    ['fails', (issuer) => `${issuer}/revoke`],
    ['is without TLS', () => 'http://evil.example.com/revoke'],
    ['is not there', () => 'http://127.0.0.1:9/revoke'],
  ])(
    'an endpoint that %s is told to the operator, changes no outcome, and shows no secret',
    async (_what, endpoint) => {
      const said: string[] = [];
      const minted = await mintAt(endpoint, (...told) => said.push(JSON.stringify(told)));
      expect(minted.release?.()).toBeUndefined();
      const [warning] = await until(() => (said.length > 0 ? said : undefined), { what: 'a warning' });
      expect(warning).toContain('was not revoked');
      expect(warning).not.toMatch(/at-1|s3cret/);
    },
  );
});

/** Tokens that are ended with their call (RFC 7009), at a server that we did not write and at ones that do not behave. */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { MintedToken } from '../../activities/tokens/port.ts';
import { CLIENT, SECRET, URL_OF, brokerFor, requestFor, withClient } from '../support/oauth/broker.ts';
import { type HostileServer, type RunningProvider, startHostile, startProvider } from '../support/oauth/provider.ts';
import { until } from '../support/until.ts';

// oidc-provider says on the console that it runs on Node 20 and without a store.
beforeAll(() => {
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterAll(() => {
  jest.restoreAllMocks();
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
    await until(async () => ((await isActive(token)) ? undefined : true), { what: 'the end of the token' });
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
    await until(() => (ended().length > 0 ? true : undefined), { what: 'a revocation' });
    expect(ended()).toEqual(['at-1']);
  });

  test('a refresh token that nobody asked for is ended with the token, and not before', async () => {
    const { minted, ended } = await endedAt({ ...GOOD, refresh_token: 'rt-1' });
    expect(ended()).toEqual([]);
    minted?.release?.();
    await until(() => (ended().length > 1 ? true : undefined), { what: 'two revocations' });
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

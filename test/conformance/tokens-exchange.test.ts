/** Token exchange (RFC 8693) with client keys (RFC 7523): what is asked, what comes out, and what is refused (INV-S1, INV-S2). */
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createLocalJWKSet, decodeJwt, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import type { MintedToken, TokenRequest } from '../../activities/tokens/port.ts';
import { CLIENT, expectNoSecret, SECRET, URL_OF } from '../support/oauth/broker.ts';
import {
  BEARER,
  bearerGrant,
  EXCHANGE,
  exchangeGrant,
  type Identity,
  identity,
  idJagGrant,
  RESOURCES,
  SCOPES,
  type ZonedBroker,
  zonedBroker,
} from '../support/oauth/grants.ts';
import {
  type HostileBehaviour,
  type HostileServer,
  type RunningProvider,
  startHostile,
  startProvider,
} from '../support/oauth/provider.ts';
import { withCode, refusalOf } from '../support/refusal.ts';
import { signingKey, type TestSigningKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { silenceProvider } from './tokens.suite.ts';

silenceProvider();

const TYPE = 'urn:ietf:params:oauth:token-type:';

describe('token exchange at a real authorization server', () => {
  let key: TestSigningKey;
  let people: Identity;
  let provider: RunningProvider;
  let zoned: ZonedBroker;
  let assertion: string;
  beforeAll(async () => {
    [key, people] = await Promise.all([signingKey('client-1'), identity()]);
    provider = await startProvider({
      clients: [{ id: CLIENT.id, authMethod: 'private_key_jwt', publicJwk: key.publicJwk, grantTypes: [EXCHANGE] }],
      resources: RESOURCES,
      grants: { [EXCHANGE]: exchangeGrant({ people, resources: RESOURCES, actor: key.publicJwk }) },
    });
    zoned = await zonedBroker(settings(), [key]);
    assertion = await people.assertion('ann', provider.issuer);
  });
  afterAll(async () => provider.close());

  const settings = (over: object = {}) => ({
    kind: 'token-exchange' as const,
    issuer: provider.issuer,
    clientId: CLIENT.id,
    clientKey: key.config,
    scopes: SCOPES,
    ...over,
  });

  test.each([
    ['write', 'notes:write'],
    ['delete', 'notes:delete'],
    [undefined, 'notes:read'],
  ])(
    'INV-S2: the token for the tool %s is for the caller, this server and %s alone, for 120 s',
    async (tool, scope) => {
      const { accessToken, evidence } = await zoned.broker.mint(await zoned.request(assertion, tool));
      const claims = decodeJwt(accessToken ?? '');
      expect(claims).toMatchObject({
        sub: 'ann',
        aud: URL_OF.notes,
        scope,
        act: { sub: CLIENT.id },
        client_id: CLIENT.id,
      });
      expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(120);
      expect(evidence).toMatchObject({
        strategy: 'token-exchange',
        issuer: provider.issuer,
        scopes: [scope],
        jti: claims.jti,
      });
    },
  );

  test('RFC 8693 §2.1, RFC 8707: the caller is the subject, this service the actor, the server the resource', async () => {
    await zoned.broker.mint(await zoned.request(assertion, 'write'));
    const { form, authorization } = provider.seen.at(-1) ?? {};
    expect(authorization).toBeUndefined();
    expect(Object.fromEntries(form ?? [])).toMatchObject({
      grant_type: EXCHANGE,
      subject_token: assertion,
      subject_token_type: `${TYPE}jwt`,
      actor_token_type: `${TYPE}jwt`,
      requested_token_type: `${TYPE}access_token`,
      resource: URL_OF.notes,
      scope: 'notes:write',
      client_id: CLIENT.id,
    });
    expect(form?.has('client_secret')).toBe(false);
  });

  test('RFC 7523 §3: what the client signs is for this issuer only, short, and never the same twice', async () => {
    await zoned.broker.mint(await zoned.request(assertion, 'write'));
    const form = provider.seen.at(-1)?.form;
    const keys = createLocalJWKSet({ keys: [key.publicJwk] });
    const options = { issuer: CLIENT.id, subject: CLIENT.id, audience: provider.issuer };
    const signed = await Promise.all(
      ['client_assertion', 'actor_token'].map(async (field) => await jwtVerify(form?.get(field) ?? '', keys, options)),
    );
    for (const { payload, protectedHeader } of signed) {
      expect(payload.aud).toBe(provider.issuer);
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(60);
      expect(protectedHeader).toMatchObject({ alg: 'ES256', kid: 'client-1' });
    }
    expect(new Set(signed.map(({ payload }) => payload.jti)).size).toBe(2);
  });

  test.each<[string, (good: TokenRequest) => Promise<TokenRequest> | TokenRequest, string]>([
    [
      'made for another audience',
      async () => zoned.request(await people.assertion('ann', 'https://other.example.com'), 'write'),
      'TOKEN_REFUSED',
    ],
    [
      'of people whom nobody knows',
      async () => zoned.request(await (await identity()).assertion('ann', provider.issuer), 'write'),
      'TOKEN_REFUSED',
    ],
    ['that is missing', ({ grant: _grant, ...rest }) => rest, 'GRANT_MISSING'],
    [
      'that was sealed for another run',
      (good) => ({ ...good, run: { ...good.run, workflowId: 'another' } }),
      'GRANT_INVALID',
    ],
    ['of a vault', (good) => ({ ...good, grant: { server: 'notes', ref: 'x' } }), 'GRANT_INVALID'],
  ])('an assertion %s gets no token, and nothing of ours takes its place', async (_what, change, code) => {
    const request = await change(await zoned.request(assertion, 'write'));
    const error = await refusalOf(zoned.broker.mint(request));
    expect(error.code).toBe(code);
    expectNoSecret(error, assertion);
  });

  test('INV-S1: what is exchanged is not a token that callers give: givenTokens: deny does not forbid it', async () => {
    const strict = await zonedBroker(settings(), [key], { policy: { givenTokens: 'deny' } });
    const { accessToken } = await strict.broker.mint(await strict.request(assertion, 'write'));
    expect(decodeJwt(accessToken ?? '').sub).toBe('ann');
  });

  test('F15: a foreign scope is refused by the issuer, and finally', async () => {
    const greedy = await zonedBroker(settings({ scopes: { default: ['admin'] } }), [key]);
    await expect(greedy.broker.mint(await greedy.request(assertion, 'write'))).rejects.toMatchObject(
      withCode('TOKEN_REFUSED', 'invalid_scope'),
    );
  });
});

describe('token exchange at a hostile authorization server', () => {
  let server: HostileServer;
  afterEach(async () => server.close());

  const GOOD = { access_token: 'at-1', token_type: 'Bearer', expires_in: 60, issued_token_type: `${TYPE}access_token` };

  async function brokerAt(hostile: HostileBehaviour, over: object = {}): Promise<() => Promise<MintedToken>> {
    server = await startHostile(hostile);
    const zoned = await zonedBroker({
      kind: 'token-exchange',
      issuer: server.issuer,
      clientId: CLIENT.id,
      clientSecret: SECRET,
      actor: 'client',
      scopes: SCOPES,
      ...over,
    });
    return async () => zoned.broker.mint(await zoned.request('subject-canary-1', 'write'));
  }

  async function mint(body: (form: URLSearchParams) => object): Promise<MintedToken> {
    return (await brokerAt({ token: ({ form }) => ({ body: body(form) }) }))();
  }

  test('control: its good answer is taken', async () => {
    expect((await mint(() => GOOD)).accessToken).toBe('at-1');
  });

  test.each<[string, (form: URLSearchParams) => object, string]>([
    [
      'the assertion itself (token passthrough)',
      (form) => ({ ...GOOD, access_token: form.get('subject_token') }),
      'sent itself',
    ],
    ['a token of another type', () => ({ ...GOOD, issued_token_type: `${TYPE}id_token` }), 'another type'],
    ['a token without its type', () => ({ ...GOOD, issued_token_type: undefined }), 'another type'],
    ['a token that is no bearer token', () => ({ ...GOOD, token_type: 'N_A' }), 'no bearer token'],
    ['a wider scope', () => ({ ...GOOD, scope: 'notes:write notes:delete' }), 'wider than asked'],
  ])('INV-S2: %s is refused, not used', async (_what, body, reason) => {
    const error = await refusalOf(mint(body));
    expect(error).toMatchObject(withCode('TOKEN_REFUSED', reason));
    expectNoSecret(error, 'subject-canary-1', SECRET);
  });

  test.each<[string, (form: URLSearchParams) => object, string]>([
    ['token', (form) => ({ access_token: form.get('subject_token'), refresh_token: 'rt-1' }), 'rt-1'],
    ['refresh token', (form) => ({ refresh_token: form.get('subject_token'), scope: 'admin' }), 'at-1'],
  ])(
    'with revoke: true an assertion that comes back as the %s is not ended: its caller has it',
    async (_, with_, own) => {
      const metadata = (issuer: string) => ({
        body: { issuer, token_endpoint: `${issuer}/token`, revocation_endpoint: `${issuer}/token` },
      });
      const token = ({ form }: { readonly form: URLSearchParams }) => ({
        body: form.has('token') ? {} : { ...GOOD, ...with_(form) },
      });
      const mintAt = await brokerAt({ metadata, token }, { revoke: true });
      const ended = (): string[] => server.seen.flatMap(({ form }) => form.getAll('token'));
      expect((await refusalOf(mintAt())).code).toBe('TOKEN_REFUSED');
      await until(() => ended().length > 0, { what: 'a revocation' });
      // A second mint, and what it ends, come after all that the first one has sent.
      expect((await refusalOf(mintAt())).code).toBe('TOKEN_REFUSED');
      await until(() => ended().length > 1, { what: 'a second revocation' });
      expect(ended()).toEqual([own, own]);
    },
  );
});

describe('enterprise-managed authorization', () => {
  let people: Identity;
  let atServer: RunningProvider;
  let atProvider: RunningProvider;
  let subject: string;
  beforeAll(async () => {
    people = await identity();
    atServer = await startProvider({
      clients: [{ id: 'at-the-server', secret: 'canary-server-secret', grantTypes: [BEARER] }],
      resources: RESOURCES,
      grants: { [BEARER]: bearerGrant(people, () => atProvider.issuer, RESOURCES) },
    });
    atProvider = await startProvider({
      clients: [{ ...CLIENT, grantTypes: [EXCHANGE] }],
      resources: RESOURCES,
      grants: { [EXCHANGE]: idJagGrant(people, [atServer.issuer]) },
    });
    subject = await people.assertion('ann', CLIENT.id);
  });
  afterAll(async () => {
    await Promise.all([atServer.close(), atProvider.close()]);
  });

  const settings = (provider: string) => ({
    kind: 'enterprise-managed' as const,
    issuer: atServer.issuer,
    clientId: 'at-the-server',
    clientSecret: 'canary-server-secret',
    identityProvider: { issuer: provider, clientId: CLIENT.id, clientSecret: SECRET },
    scopes: SCOPES,
  });

  async function mint(tool?: string): Promise<MintedToken> {
    const zoned = await zonedBroker(settings(atProvider.issuer));
    return zoned.broker.mint(await zoned.request(subject, tool));
  }

  test.each([
    ['write', 'notes:write'],
    [undefined, 'notes:read'],
  ])('INV-S2: the token for the tool %s is for the caller, this server and %s alone', async (tool, scope) => {
    const { accessToken, evidence } = await mint(tool);
    const claims = decodeJwt(accessToken ?? '');
    expect(claims).toMatchObject({ sub: 'ann', aud: URL_OF.notes, scope, client_id: 'at-the-server' });
    expect(evidence).toMatchObject({ strategy: 'enterprise-managed', issuer: atServer.issuer, scopes: [scope] });
  });

  test('each hop gets its own: the assertion ends at the identity provider, the ID-JAG at the issuer', async () => {
    const { accessToken, secrets } = await mint('write');
    const first = atProvider.seen.at(-1)?.form;
    const second = atServer.seen.at(-1)?.form;
    expect(Object.fromEntries(first ?? [])).toMatchObject({
      grant_type: EXCHANGE,
      requested_token_type: `${TYPE}id-jag`,
      subject_token: subject,
      subject_token_type: `${TYPE}id_token`,
      audience: atServer.issuer,
      resource: URL_OF.notes,
      scope: 'notes:write',
    });
    expect(Object.fromEntries(second ?? [])).toMatchObject({
      grant_type: BEARER,
      resource: URL_OF.notes,
      scope: 'notes:write',
    });
    expect([...(second?.values() ?? [])]).not.toContain(subject);
    const assertion = second?.get('assertion') ?? '';
    expect(decodeJwt(assertion)).toMatchObject({ aud: atServer.issuer, client_id: 'at-the-server', sub: 'ann' });
    expect(secrets).toEqual(expect.arrayContaining([accessToken, assertion, subject, SECRET, 'canary-server-secret']));
    // The issuer takes it once, and each call asks anew.
    await mint('write');
    expect(atServer.seen.at(-1)?.form.get('assertion')).not.toBe(assertion);
  });

  describe('with an identity provider that lies', () => {
    const [EMPTY, TYPE_5] = [{}, { alg: 'none', typ: 5 }].map((part) =>
      Buffer.from(JSON.stringify(part)).toString('base64url'),
    );
    let lying: Awaited<ReturnType<typeof startHostile>>;
    afterEach(async () => lying.close());

    async function mintWith(claims: JWTPayload, answer: object = {}, typ = 'oauth-id-jag+jwt'): Promise<MintedToken> {
      lying = await startHostile({
        token: () => ({
          body: {
            access_token: told,
            token_type: 'N_A',
            issued_token_type: `${TYPE}id-jag`,
            ...answer,
          },
        }),
      });
      const base = {
        iss: lying.issuer,
        sub: 'ann',
        aud: atServer.issuer,
        client_id: 'at-the-server',
        resource: URL_OF.notes,
      };
      const told = await new SignJWT({ ...base, scope: 'notes:write', ...claims })
        .setProtectedHeader({ alg: 'ES256', typ })
        .sign(people.key.privateKey);
      const zoned = await zonedBroker(settings(lying.issuer));
      return zoned.broker.mint(await zoned.request(subject, 'write'));
    }

    test('control: what does not lie reaches the issuer, which takes it from its own provider only', async () => {
      const before = atServer.seen.length;
      await expect(mintWith({})).rejects.toMatchObject({ message: expect.stringContaining('invalid_grant') });
      expect(atServer.seen).toHaveLength(before + 1);
    });

    test.each<[string, JWTPayload, object, string | undefined]>([
      ['for another issuer', { aud: 'https://evil.example.com' }, {}, undefined],
      ['for several issuers', { aud: ['https://evil.example.com', 'https://x.example.com'] }, {}, undefined],
      ['of another issuer', { iss: 'https://evil.example.com' }, {}, undefined],
      ['for another client', { client_id: 'somebody' }, {}, undefined],
      ['for another server', { resource: URL_OF.files }, {}, undefined],
      ['of a wider scope', { scope: 'notes:write admin' }, {}, undefined],
      ['of a scope that its answer widens', {}, { scope: 'notes:write notes:delete' }, undefined],
      ['of another type', {}, {}, 'JWT'],
      ['said to be an access token', {}, { issued_token_type: `${TYPE}access_token` }, undefined],
      ['said to be a bearer token', {}, { token_type: 'Bearer' }, undefined],
      ['that is no JWT', {}, { access_token: 'opaque' }, undefined],
      ['whose header is no JSON', {}, { access_token: `x.${EMPTY}.c2ln` }, undefined],
      ['whose type is no text', {}, { access_token: `${TYPE_5}.${EMPTY}.c2ln` }, undefined],
      ['that is the assertion', {}, { access_token: undefined }, undefined],
    ])('INV-S2: an ID-JAG %s is sent nowhere', async (what, claims, answer, typ) => {
      const before = atServer.seen.length;
      const given = what === 'that is the assertion' ? { access_token: subject } : answer;
      const error = await refusalOf(mintWith(claims, given, typ));
      expect(error).toMatchObject(withCode('TOKEN_REFUSED', 'identity provider'));
      expect(atServer.seen).toHaveLength(before);
      expectNoSecret(error, subject, SECRET);
    });
  });
});

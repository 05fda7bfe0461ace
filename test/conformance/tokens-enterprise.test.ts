/** Enterprise-managed authorization of MCP: the identity provider's word (ID-JAG) becomes a token of the server's issuer. */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type JWTPayload, SignJWT, decodeJwt } from 'jose';
import type { MintedToken } from '../../activities/tokens/port.ts';
import { RESOURCES, SCOPES, zonedBroker } from '../support/exchange-broker.ts';
import { refusalOf } from '../support/keys-refusal.ts';
import { CLIENT, SECRET, URL_OF, expectNoSecret } from '../support/oauth-broker.ts';
import { BEARER, EXCHANGE, bearerGrant, type Identity, idJagGrant, identity } from '../support/oauth-grants.ts';
import { type RunningProvider, startHostile, startProvider } from '../support/oauth.ts';

// oidc-provider says on the console that it runs on Node 20 and without a store.
beforeAll(() => {
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterAll(() => {
  jest.restoreAllMocks();
});

const TYPE = 'urn:ietf:params:oauth:token-type:';

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
      expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringContaining('identity provider') });
      expect(atServer.seen).toHaveLength(before);
      expectNoSecret(error, subject, SECRET);
    });
  });
});

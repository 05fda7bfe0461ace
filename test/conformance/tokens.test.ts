/** The ways of obtaining a token, each through the suite of the port, and the broker that chooses among them. */
import { describe, expect, test } from '@jest/globals';
import { Config } from '../../contracts/schemas/config.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import { sealAuthorization } from '../../client/signing/sealing.ts';
import { createTokenBroker } from '../../activities/tokens/broker.ts';
import { loopbackEgress } from '../support/egress.ts';
import { CLIENT, SECRET, URL_OF, brokerFor, requestFor, runOf, withClient } from '../support/oauth/broker.ts';
import {
  enterpriseSetting,
  exchangeSetting,
  issuedSetting,
  shownAt,
  signedClientSetting,
} from '../support/oauth/grants.ts';
import { startHostile, startProvider } from '../support/oauth/provider.ts';
import { privateKeysOf, zoneKey } from '../support/signing/keys.ts';
import { describeTokens, silenceProvider } from './tokens.suite.ts';

silenceProvider();

describeTokens('sealed grants', async () => {
  const zone = await zoneKey();
  const config = Config.parse({ servers: { notes: { url: URL_OF.notes } } });
  const grantFor = async (run: number): Promise<Grant> => {
    const jwe = await sealAuthorization({
      authorization: `Bearer canary-token-${run}`,
      serverUrl: URL_OF.notes,
      binding: runOf(run),
      key: zone.publicJwk,
      expiresInSeconds: 3_600,
    });
    return { server: 'notes', jwe };
  };
  return {
    broker: createTokenBroker({ config, keys: privateKeysOf(zone), egress: loopbackEgress() }),
    strategy: 'given',
    request: async (run) => ({
      run: runOf(run),
      server: 'notes',
      serverUrl: URL_OF.notes,
      tool: 'write',
      grant: await grantFor(run),
    }),
    canaries: ['canary-token-1', 'canary-token-2'],
    afterRefusal: 'TOKEN_REFUSED',
    close: async () => undefined,
  };
});

describeTokens('client credentials', async () => {
  const provider = await startProvider({ clients: [CLIENT], resources: { [URL_OF.notes]: 'notes:read notes:write' } });
  return {
    strategy: 'client-credentials',
    shown: () => shownAt(provider),
    broker: brokerFor(withClient(provider.issuer, { default: ['notes:write'], discovery: ['notes:read'] })),
    request: async (run) => ({ ...requestFor('notes', 'write'), run: runOf(run) }),
    canaries: [SECRET],
    afterRefusal: 'another token',
    close: async () => provider.close(),
  };
});

describeTokens('client credentials that are signed (RFC 7523)', signedClientSetting);
describeTokens('token exchange, the actor signing (RFC 8693)', async () => await exchangeSetting('key'));
describeTokens('token exchange, the client as actor', async () => await exchangeSetting('secret'));
describeTokens('enterprise-managed authorization (ID-JAG)', enterpriseSetting);
describeTokens('tokens that we issue (RFC 9068)', issuedSetting);

const OFFICE = { name: 'office', tenant: 'default' };

describeTokens('credentials that a catalog names', async () => {
  const provider = await startProvider({ clients: [CLIENT], resources: { [URL_OF.notes]: 'notes:read notes:write' } });
  const { servers } = withClient(provider.issuer, { default: ['notes:write'], discovery: ['notes:read'] });
  const use = servers?.['notes']?.credentials ?? { kind: 'none' };
  return {
    strategy: 'client-credentials',
    broker: brokerFor({ credentials: { office: { use, origins: [new URL(URL_OF.notes).origin] } } }),
    request: async (run) => ({ ...requestFor('notes', 'write'), run: runOf(run), credentials: OFFICE }),
    canaries: [SECRET],
    afterRefusal: 'another token',
    close: async () => provider.close(),
  };
});

describe('credentials that a catalog names', () => {
  const issuer = 'http://127.0.0.1:9';
  const use = { kind: 'client-credentials', issuer, clientId: 'a', clientSecret: 'b' } as const;
  const broker = brokerFor({ credentials: { office: { use, origins: ['https://files.example.com'] } } });

  test.each([
    ['to an origin that the operator did not list', { credentials: OFFICE }, 'TOKEN_REFUSED'],
    [
      'for a tenant that they are not for',
      { server: 'files', serverUrl: URL_OF.files, credentials: { name: 'office', tenant: 'other' } },
      'TOKEN_REFUSED',
    ],
    ['that nobody configured', { credentials: { name: 'constructor', tenant: 'default' } }, 'TOKEN_REFUSED'],
  ])('go nowhere %s (INV-S2)', async (_, over, code) => {
    await expect(broker.mint({ ...requestFor('notes'), ...over })).rejects.toMatchObject({ code });
  });

  test('a grant beside them is refused by name, not ignored', async () => {
    const grant: Grant = { server: 'files', ref: 'x' };
    await expect(broker.mint({ ...requestFor('files'), credentials: OFFICE, grant })).rejects.toMatchObject({
      code: 'GRANT_INVALID',
    });
  });
});

describe('the broker', () => {
  const grant: Grant = { server: 'notes', ref: 'x' };

  test('a server without credentials gets no token, and that is recorded', async () => {
    const broker = brokerFor({ servers: { notes: { url: URL_OF.notes, credentials: { kind: 'none' } } } });
    expect(await broker.mint(requestFor('notes'))).toEqual({ evidence: { strategy: 'none' }, secrets: [] });
    await expect(broker.mint({ ...requestFor('notes'), refused: 'x' })).rejects.toMatchObject({
      code: 'TOKEN_REFUSED',
    });
  });

  test.each([['none' as const], ['client-credentials' as const]])(
    'a grant for a server with credentials %s is refused by name, not ignored',
    async (kind) => {
      const credentials =
        kind === 'none' ? { kind } : { kind, issuer: 'http://127.0.0.1:9', clientId: 'a', clientSecret: 'b' };
      const broker = brokerFor({ servers: { notes: { url: URL_OF.notes, credentials } } });
      await expect(broker.mint({ ...requestFor('notes'), grant })).rejects.toMatchObject({
        code: 'GRANT_INVALID',
        message: expect.stringMatching(/notes.*configured as/),
      });
    },
  );

  test('F15: under a configured name, no other address is served, not even by an issuer that would', async () => {
    const server = await startHostile({ token: () => ({ body: { access_token: 'at-1', token_type: 'bearer' } }) });
    const broker = brokerFor(withClient(server.issuer));
    await expect(broker.mint({ ...requestFor('notes'), serverUrl: URL_OF.files })).rejects.toMatchObject({
      code: 'TOKEN_REFUSED',
    });
    expect(server.seen).toHaveLength(0);
    await server.close();
  });

  test('S1.4: a server that the run brought gets what the run gave, or nothing', async () => {
    const zone = await zoneKey();
    const broker = createTokenBroker({ config: Config.parse({}), keys: privateKeysOf(zone), egress: loopbackEgress() });
    const request = { run: runOf(1), server: 'brought', serverUrl: 'https://brought.example.com/mcp' };
    expect(await broker.mint(request)).toEqual({ evidence: { strategy: 'none' }, secrets: [] });
    const jwe = await sealAuthorization({
      authorization: 'at',
      serverUrl: request.serverUrl,
      binding: runOf(1),
      key: zone.publicJwk,
      expiresInSeconds: 60,
    });
    expect((await broker.mint({ ...request, grant: { server: 'brought', jwe } })).accessToken).toBe('at');
  });

  test('a grant opens, also if whoever sealed it named more of the run than binds it', async () => {
    const zone = await zoneKey();
    const broker = createTokenBroker({ config: Config.parse({}), keys: privateKeysOf(zone), egress: loopbackEgress() });
    const request = { run: runOf(1), server: 'brought', serverUrl: 'https://brought.example.com/mcp' };
    const binding = { ...runOf(1), runId: 'r-1', tenant: 'acme' };
    const sealing = { authorization: 'at', serverUrl: request.serverUrl, key: zone.publicJwk, expiresInSeconds: 60 };
    const jwe = await sealAuthorization({ ...sealing, binding });
    expect((await broker.mint({ ...request, grant: { server: 'brought', jwe } })).accessToken).toBe('at');
  });

  test('a name from the language is no configured server', async () => {
    const broker = brokerFor({});
    expect(await broker.mint({ ...requestFor('notes'), server: 'constructor' })).toMatchObject({
      evidence: { strategy: 'none' },
    });
  });

  test('INV-S1: secrets in configured headers are scrubbed with the token', async () => {
    const headers = {
      'X-Api-Key': 'k-1',
      'X-Opaque': 'a1b2c3d4e5f6a7b8',
      'X-Tenant': 'emea',
      'X-Origin': 'https://a1.example.com/',
    };
    const broker = brokerFor({ servers: { notes: { url: URL_OF.notes, credentials: { kind: 'none' }, headers } } });
    expect((await broker.mint(requestFor('notes'))).secrets).toEqual(['k-1', 'a1b2c3d4e5f6a7b8']);
  });
});

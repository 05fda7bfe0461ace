/** This deployment as an issuer (RFC 9068, RFC 7517): what it signs, for whom, and what it publishes. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { createTokenBroker } from '../../../../activities/tokens/broker.ts';
import {
  issuedStrategy,
  issuerMetadata,
  publishedKeys,
  tokenSigner,
  type UnsignedClaims,
} from '../../../../activities/tokens/issued.ts';
import { loadSigningKeys, signingKeysOf } from '../../../../activities/tokens/sealed.ts';
import { createServerWords } from '../../../../activities/tokens/proof-key.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { IssuedTokens, Issuer } from '../../../../contracts/schemas/credentials.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { requestFor, URL_OF } from '../../../support/oauth/broker.ts';
import { refusalOf } from '../../../support/refusal.ts';
import { signingKeysOf as keysOf, signingKey } from '../../../support/signing/keys.ts';

// Whom a countersigned token names: one subject is one person of one tenant, and never the service (RFC 7519 §4.1.2).

const KEYS = [{ kid: 'one', privateKeyFile: 'one.pem' }];
const ISSUER = Issuer.parse({ url: 'https://countersign.example.com', keys: KEYS });

async function subjectOf(id: string, tenant = 'default'): Promise<string> {
  const signed: UnsignedClaims[] = [];
  const sign = async (claims: UnsignedClaims) => {
    signed.push(claims);
    return { token: 'x', jti: 'y', expiresAtMs: 0 };
  };
  const credentials = IssuedTokens.parse({ kind: 'issued', resource: URL_OF.notes });
  const strategy = issuedStrategy(credentials, {
    issuer: ISSUER,
    sign,
    trust: 'temporal',
    words: createServerWords(Date.now),
  });
  await strategy.mint({ ...requestFor('notes'), initiator: { id, tenant } });
  return String(signed[0]?.sub);
}

test.each([
  ['ann', 'default', 'ann'],
  ['https://login.example.com|ann', 'default', 'https://login.example.com|ann'],
  ['ann', 'acme', 'acme/ann'],
  ['acme/ann', 'default', 'default/acme/ann'],
  ['x/ann', 'acme', 'acme/x/ann'],
  ['ann', 'acme/x', 'acme%2Fx/ann'],
  ['ann', 'https://acme', 'https%3A%2F%2Facme/ann'],
  ['countersign', 'default', 'default/countersign'],
])('%s of tenant %s is %s', async (id, tenant, subject) => {
  expect(await subjectOf(id, tenant)).toBe(subject);
});

test('no two people have one subject, and none has that of the service', async () => {
  const parts = ['ann', 'acme', 'acme/ann', 'default', 'default/ann', 'a%2Fb', 'a/b', '/', '%', 'countersign', 'a|b/c'];
  const pairs = parts.flatMap((id) => parts.map((tenant) => [id, tenant] as const));
  const subjects = await Promise.all(pairs.map(async ([id, tenant]) => await subjectOf(id, tenant)));
  expect(new Set(subjects).size).toBe(pairs.length);
  expect(subjects).not.toContain(ISSUER.clientId);
});

test.each([
  [{ url: 'https://c.example.com/path' }, /issuer\.url must be an origin/],
  [{ url: 'https://c.example.com?x=1' }, /issuer\.url must be an origin/],
  [{ url: 'https://c.example.com', clientId: 'acme/agent' }, /issuer\.clientId must not begin like TENANT/],
])('an issuer %j is refused at start: nobody would find its keys, or tell it from a person', (over, reason) => {
  expect(() => checkConfig(Config.parse({ issuer: { ...over, keys: KEYS } }), 'configuration')).toThrow(reason);
});

test.each(['https://c.example.com', 'https://c.example.com/'])('an issuer at %s is taken', (url) => {
  const clientId = 'https://c.example.com/agent';
  expect(() => checkConfig(Config.parse({ issuer: { url, clientId, keys: KEYS } }), 'configuration')).not.toThrow();
});

const { folder, load } = useConfigFolders();
const URL_OF_ISSUER = 'https://countersign.example.com';
const NOW = Date.parse('2026-03-01T12:00:00.500Z');
const CLAIMS = {
  sub: 'ann',
  aud: URL_OF.notes,
  countersign: { namespace: 'default', run: 'run-1', trust: 'temporal' as const },
};

describe('an issuer', () => {
  test.each(['ES256', 'RS256', 'PS256', 'EdDSA'] as const)(
    'signs with %s, and what it publishes verifies it without being able to sign',
    async (alg) => {
      const key = await signingKey('one', alg);
      const directory = await folder({ 'one.pem': key.pem });
      const issuer = Issuer.parse({ url: URL_OF_ISSUER, keys: [key.config] });
      const published = await publishedKeys(issuer, directory);
      expect(published).toEqual({ keys: [key.publicJwk] });
      const keys = await loadSigningKeys([{ path: 'issuer.keys[0]', key: key.config }], directory);
      const { token, jti, expiresAtMs } = await tokenSigner(issuer, keys, () => NOW)(CLAIMS);
      const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet({ keys: [...published.keys] }), {
        issuer: URL_OF_ISSUER,
        audience: URL_OF.notes,
        typ: 'at+jwt',
        currentDate: new Date(NOW),
      });
      expect(protectedHeader).toEqual({ alg, kid: 'one', typ: 'at+jwt' });
      expect(payload).toMatchObject({
        jti,
        exp: expiresAtMs / 1_000,
        iat: Math.floor(NOW / 1_000),
        client_id: 'countersign',
      });
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(60);
    },
  );

  test('the first key signs, and all are published, so that a new one is known before it signs', async () => {
    const [one, two] = [await signingKey('one'), await signingKey('two')];
    const directory = await folder({ 'one.pem': one.pem, 'two.pem': two.pem });
    const issuer = Issuer.parse({ url: URL_OF_ISSUER, keys: [two.config, one.config] });
    const { token } = await tokenSigner(issuer, keysOf(one, two), () => NOW)(CLAIMS);
    expect(decodeProtectedHeader(token).kid).toBe('two');
    expect((await publishedKeys(issuer, directory)).keys.map(({ kid }) => kid)).toEqual(['two', 'one']);
  });

  test.each([9, 121])('INV-S2: a lifetime of %d s is refused', (lifetimeSeconds) => {
    const keys = [{ kid: 'one', privateKeyFile: 'one.pem' }];
    expect(Issuer.safeParse({ url: URL_OF_ISSUER, keys, lifetimeSeconds }).success).toBe(false);
  });

  test('its metadata name the keys under its own URL, with or without a slash', () => {
    const keys = [{ kid: 'one', privateKeyFile: 'one.pem' }];
    for (const url of ['https://a.example.com/x', 'https://a.example.com/x/'])
      expect(issuerMetadata(Issuer.parse({ url, keys }))).toMatchObject({
        issuer: url,
        jwks_uri: 'https://a.example.com/x/.well-known/jwks.json',
      });
  });

  test('tokens for a catalog are for the service itself, and act for nobody', async () => {
    const key = await signingKey('one');
    const config = Config.parse({
      servers: {
        notes: { url: URL_OF.notes, credentials: { kind: 'issued', resource: 'https://NOTES.example.com:443/' } },
      },
      issuer: { url: URL_OF_ISSUER, keys: [key.config], clientId: 'agents' },
    });
    const broker = createTokenBroker({ config, keys: new Map(), signingKeys: keysOf(key), egress: loopbackEgress() });
    const claims = decodeJwt((await broker.mint(requestFor('notes'))).accessToken ?? '');
    expect(claims).toMatchObject({ sub: 'agents', client_id: 'agents', aud: 'https://notes.example.com' });
    expect(claims).not.toHaveProperty('act');
    expect(claims).not.toHaveProperty('scope');
  });

  test('two calls at the same moment have two tokens', async () => {
    const key = await signingKey('one');
    const sign = tokenSigner(Issuer.parse({ url: URL_OF_ISSUER, keys: [key.config] }), keysOf(key), () => NOW);
    const [first, second] = [await sign(CLAIMS), await sign(CLAIMS)];
    expect(first.jti).not.toBe(second.jti);
  });
});

describe('keys with which a worker signs', () => {
  test('of all clients and of the issuer are loaded, with the place of one that cannot be', async () => {
    const key = await signingKey('one');
    const directory = await folder({ 'one.pem': key.pem, 'bad.pem': 'canary' });
    const client = { issuer: 'https://idp.example.com', clientId: 'a' };
    const named = (privateKeyFile: string) => ({ kid: privateKeyFile, privateKeyFile });
    const config = Config.parse({
      servers: {
        a: {
          url: 'https://a.example.com',
          credentials: { kind: 'client-credentials', ...client, clientKey: named('one.pem') },
        },
        b: {
          url: 'https://b.example.com',
          credentials: {
            kind: 'enterprise-managed',
            ...client,
            clientKey: named('one.pem'),
            identityProvider: { ...client, clientKey: named('bad.pem') },
          },
        },
      },
      issuer: { url: URL_OF_ISSUER, keys: [named('gone.pem')] },
    });
    const places = signingKeysOf(config);
    expect(places.map(({ path }) => path)).toEqual([
      'servers.a.credentials.clientKey',
      'servers.b.credentials.clientKey',
      'servers.b.credentials.identityProvider.clientKey',
      'issuer.keys[0]',
    ]);
    const loaded = await loadSigningKeys(places.slice(0, 2), directory);
    expect(loaded(key.config).extractable).toBe(false);
    const bad = await refusalOf(loadSigningKeys(places.slice(2, 3), directory));
    expect(bad).toMatchObject({
      code: 'CONFIG_INVALID',
      facts: { path: 'servers.b.credentials.identityProvider.clientKey.privateKeyFile' },
      message: expect.stringContaining('no private key for ES256'),
    });
    expect(`${bad.message}${String(bad.cause)}`).not.toContain('canary');
    await expect(loadSigningKeys(places.slice(3), directory)).rejects.toMatchObject({
      message: expect.stringContaining('ENOENT'),
    });
  });

  test('a key of another kind than its alg is refused', async () => {
    const key = await signingKey('one', 'RS256');
    const directory = await folder({ 'one.pem': key.pem });
    const place = { path: 'issuer.keys[0]', key: { ...key.config, alg: 'ES256' as const } };
    await expect(loadSigningKeys([place], directory)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  });
});

describe('what fails without a code', () => {
  test('a key that is too short to sign is refused when a worker starts, not with the first call', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1_024 });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    const directory = await folder({ 'short.pem': String(pem) });
    for (const alg of ['RS256', 'PS256'] as const) {
      const place = { path: 'issuer.keys[0]', key: { kid: 'short', privateKeyFile: 'short.pem', alg } };
      await expect(loadSigningKeys([place], directory)).rejects.toMatchObject({
        code: 'CONFIG_INVALID',
        facts: { path: 'issuer.keys[0].privateKeyFile' },
        message: expect.stringContaining('RSA needs 2048 bits'),
      });
    }
  });

  test('INV-X1, INV-S1: is a token that is not had, before any call, and tells nothing', async () => {
    const key = await signingKey('one');
    const config = Config.parse({
      servers: { notes: { url: URL_OF.notes, credentials: { kind: 'issued' } } },
      issuer: { url: URL_OF_ISSUER, keys: [key.config] },
    });
    const signingKeys = () => {
      throw new TypeError('canary', { cause: 'canary' });
    };
    const said: unknown[] = [];
    const warn = (...told: unknown[]) => void said.push(told);
    const broker = createTokenBroker({ config, keys: new Map(), signingKeys, egress: loopbackEgress(), warn });
    const error = await refusalOf(broker.mint(requestFor('notes')));
    expect(error).toMatchObject({ code: 'TOKEN_UNAVAILABLE', facts: { server: 'notes' } });
    expect(said).toEqual([[expect.any(String), { server: 'notes', error: 'TypeError' }]]);
    expect(`${error.message} ${String(error.cause)} ${JSON.stringify(said)}`).not.toContain('canary');
  });
});

describe('a configuration of credentials', () => {
  const server = (credentials: string) =>
    `servers:\n  notes:\n    url: https://n.example.com\n    credentials: {${credentials}}\n`;
  const client = 'issuer: https://i.example.com, clientId: a';
  const key = 'clientKey: {kid: k, privateKeyFile: k.pem}';
  const at = 'servers.notes.credentials';

  test.each([
    [
      'a client with secret and key',
      server(`kind: client-credentials, ${client}, clientSecret: s, ${key}`),
      `${at}.clientSecret`,
    ],
    ['an exchange without either', server(`kind: token-exchange, ${client}, actor: client`), `${at}.clientSecret`],
    ['an actor that cannot sign', server(`kind: token-exchange, ${client}, clientSecret: s`), `${at}.actor`],
    [
      'an identity provider without either',
      server(`kind: enterprise-managed, ${client}, ${key}, identityProvider: {${client}}`),
      `${at}.identityProvider.clientSecret`,
    ],
    ['issued without an issuer', server('kind: issued'), at],
    [
      'an issuer without TLS',
      `issuer: {url: "http://c.example.com", keys: [{kid: k, privateKeyFile: k.pem}]}\n`,
      'issuer.url',
    ],
    [
      'an issuer with two keys of one name',
      `issuer: {url: "https://c.example.com", keys: [{kid: k, privateKeyFile: k.pem}, {kid: k, privateKeyFile: l.pem}]}\n`,
      'issuer.keys[1].kid',
    ],
    [
      'an identity provider without TLS',
      server(
        `kind: enterprise-managed, ${client}, ${key}, identityProvider: {issuer: "http://i.example.com", clientId: a, ${key}}`,
      ),
      `${at}.identityProvider.issuer`,
    ],
  ])('%s is refused at its place', async (_what, yaml, path) => {
    expect(await refusalOf(load(yaml))).toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
  });

  test('control: what is right is taken', async () => {
    const { config } = await load(server(`kind: token-exchange, ${client}, ${key}`));
    expect(config.servers['notes']?.credentials).toMatchObject({
      actor: 'assertion',
      subjectTokenType: 'jwt',
      revoke: false,
    });
  });
});

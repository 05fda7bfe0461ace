/** Sessions in cookies: whom they name, which gateways believe them, and how much they hold. */
import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { GatewayConfig, type GatewayConfigInput } from '../../../contracts/schemas/gateway.ts';
import type { AskProvider } from '../../../gateway/identity/keys.ts';
import { ProviderKeys } from '../../../gateway/identity/keys.ts';
import { People } from '../../../gateway/identity/person.ts';
import { Sessions } from '../../../gateway/identity/sessions.ts';
import { withCode, codeOf, refusalOf } from '../../support/refusal.ts';

const ISSUER = 'https://login.example.com';
const SHARED = randomBytes(32).toString('base64');
const SIGN_IN = {
  publicUrl: 'https://countersign.example.com',
  clientId: 'gateway',
  keys: [{ id: 'shared', key: SHARED }],
};
const CONFIG: GatewayConfigInput = {
  oidc: { issuer: ISSUER, audience: 'countersign', tenant: 'acme' },
  signIn: SIGN_IN,
};

const metadata = async (): Promise<Response> =>
  await Promise.resolve(
    Response.json({ issuer: ISSUER, authorization_endpoint: `${ISSUER}/authorize`, token_endpoint: `${ISSUER}/token` }),
  );

function sessionsOf(over: GatewayConfigInput = {}, ask: AskProvider = metadata): Sessions {
  const config = GatewayConfig.parse({ ...CONFIG, ...over });
  if (config.oidc === undefined) throw new Error('no provider');
  return new Sessions(config, new People(config.may), new ProviderKeys(config.oidc, ask), ask);
}

test('a session of the development login counts in its own process alone, whatever keys are shared', async () => {
  const development = sessionsOf({ development: true });
  const { value } = await development.sessionOf({ id: 'root', groups: ['admins'], tenant: 'acme' });
  expect(await development.askerOf(value)).toMatchObject({ id: 'root', groups: ['admins'], tenant: 'acme' });
  expect(await codeOf(sessionsOf().askerOf(value))).toBe('SIGN_IN_REQUIRED');
  expect(await codeOf(sessionsOf({ development: true }).askerOf(value))).toBe('SIGN_IN_REQUIRED');
});

test('a gateway without the development login makes no such session', async () => {
  expect(await codeOf(sessionsOf().sessionOf({ id: 'root', groups: [], tenant: 'acme' }))).toBe('ACTION_FORBIDDEN');
});

test('what a browser would not keep is refused in words, so that nobody signs in for ever', async () => {
  const development = sessionsOf({ development: true });
  const groups = Array.from({ length: 1_000 }, (_, index) => `group-${index}`);
  const refusal = await refusalOf(development.sessionOf({ id: 'ann', groups, tenant: 'acme' }));
  expect(refusal.code).toBe('ACTION_FORBIDDEN');
  expect(refusal.message).toContain('fewer groups');
  const { value } = await development.sessionOf({ id: 'ann', groups: groups.slice(0, 150), tenant: 'acme' });
  expect(value.length).toBeLessThanOrEqual(3_800);
});

test('many who begin to sign in cause one question to the provider, which has a deadline', async () => {
  const asked: (AbortSignal | null | undefined)[] = [];
  const sessions = sessionsOf({}, async (_, init) => {
    asked.push(init?.signal);
    return await metadata();
  });
  const begun = await Promise.all([sessions.begin('/'), sessions.begin('/a')]);
  begun.push(await sessions.begin('/b'));
  for (const { location } of begun) expect(location).toContain(`${ISSUER}/authorize?`);
  expect(asked).toEqual([expect.any(AbortSignal)]);
});

test('metadata that could not be read are asked for again', async () => {
  let isAway = true;
  const sessions = sessionsOf({}, async () => {
    if (isAway) throw new Error('away');
    return await metadata();
  });
  expect(await codeOf(sessions.begin('/'))).toBe('TRUST_UNAVAILABLE');
  isAway = false;
  expect((await sessions.begin('/')).location).toContain(ISSUER);
});

test.each([undefined, '', 'authorize'])(
  'a provider that names no address for signing in (%j) is told so',
  async (endpoint) => {
    const sessions = sessionsOf({}, async () =>
      Response.json({ issuer: ISSUER, authorization_endpoint: endpoint, token_endpoint: `${ISSUER}/token` }),
    );
    await expect(sessions.begin('/')).rejects.toMatchObject(withCode('TRUST_UNAVAILABLE', 'authorization_endpoint'));
  },
);

describe('who comes back from the provider', () => {
  let key: CryptoKey;
  let jwk: JWK;
  beforeAll(async () => {
    const pair = await generateKeyPair('ES256', { extractable: true });
    key = pair.privateKey;
    jwk = { ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'ES256' };
  });

  type Answer = (nonce: string) => Promise<Response>;

  /** @param seconds by which the clock of the provider goes ahead */
  const idToken = async (
    nonce: string,
    seconds = 0,
    subject = 'ann',
    { audience = 'gateway', kid = 'one' } = {},
  ): Promise<Response> => {
    const now = Math.floor(Date.now() / 1_000) + seconds;
    const token = await new SignJWT({ nonce })
      .setProtectedHeader({ alg: 'ES256', kid })
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + 300)
      .sign(key);
    return Response.json({ access_token: 'at', token_type: 'Bearer', id_token: token });
  };

  /** Signs in at a provider whose token endpoint answers so. @param back what it sends the browser back with */
  async function signedIn(
    token: Answer,
    back: Readonly<Record<string, string>> = { code: 'c' },
    reader?: Sessions,
  ): Promise<string> {
    let nonce = '';
    const sessions = sessionsOf({}, async (url) => {
      if (url.endsWith('/jwks')) return Response.json({ keys: [jwk] });
      if (url.endsWith('/token')) return await token(nonce);
      const endpoints = { authorization_endpoint: `${ISSUER}/authorize`, token_endpoint: `${ISSUER}/token` };
      const algorithms = { id_token_signing_alg_values_supported: ['ES256'] };
      return Response.json({ issuer: ISSUER, jwks_uri: `${ISSUER}/jwks`, ...endpoints, ...algorithms });
    });
    const { location, cookie } = await sessions.begin('/');
    const { searchParams } = new URL(location);
    nonce = searchParams.get('nonce') ?? '';
    const query = new URLSearchParams({ state: searchParams.get('state') ?? '', ...back });
    const session = await sessions.finish(query, cookie.value);
    return (await (reader ?? sessions).askerOf(session.cookie.value)).id;
  }

  test('is signed in until the keys that sealed the session are replaced', async () => {
    const before = { id: 'before', key: SHARED };
    const after = { id: 'after', key: randomBytes(32).toString('base64') };
    const reading = (...keys: (typeof before)[]) => sessionsOf({ signIn: { ...SIGN_IN, keys } });
    const signedInAt = async (reader: Sessions) =>
      await signedIn(async (nonce) => await idToken(nonce), undefined, reader);
    expect(await signedInAt(reading(after, before))).toBe('ann');
    expect(await codeOf(signedInAt(reading(after)))).toBe('SIGN_IN_REQUIRED');
  });

  test.each([0, 25, -25])('is signed in, also by a clock that goes ahead by %d s', async (seconds) => {
    expect(await signedIn(async (nonce) => await idToken(nonce, seconds))).toBe('ann');
  });

  const answering = (status: number, body: object) => async () =>
    await Promise.resolve(Response.json(body, { status }));
  test.each<[string, Answer, string, string]>([
    ['is away', async () => await Promise.reject(new TypeError('fetch failed')), 'TRUST_UNAVAILABLE', 'not answer'],
    [
      'shows a page of a proxy',
      async () => await Promise.resolve(new Response('<html>', { status: 502 })),
      'TRUST_UNAVAILABLE',
      'not answer',
    ],
    ['has a fault', answering(500, { error: 'server_error' }), 'TRUST_UNAVAILABLE', 'not answer'],
    ['does not know the gateway', answering(401, { error: 'invalid_client' }), 'TRUST_UNAVAILABLE', 'clientSecret'],
    ['has forgotten the code', answering(400, { error: 'invalid_grant' }), 'SIGN_IN_REQUIRED', 'Begin it again'],
    ['names somebody else', async () => await idToken('another'), 'SIGN_IN_REQUIRED', 'did not let you sign in'],
    ['asks for patience', answering(429, {}), 'TRUST_UNAVAILABLE', 'not answer'],
    [
      'breaks off in its answer',
      async () => await Promise.resolve(new Response('{"id', { headers: { 'content-type': 'application/json' } })),
      'TRUST_UNAVAILABLE',
      'not answer',
    ],
    [
      'is minutes ahead',
      async (nonce) => await idToken(nonce, 120),
      'SIGN_IN_REQUIRED',
      '(OAUTH_JWT_TIMESTAMP_CHECK_FAILED). Sign in again; if that does not help, ask whoever runs this gateway.',
    ],
    [
      'signs with a key that it does not publish',
      async (nonce) => await idToken(nonce, 0, 'ann', { kid: 'two' }),
      'SIGN_IN_REQUIRED',
      '(ERR_JWKS_NO_MATCHING_KEY)',
    ],
  ])('is told what is wrong where the provider %s', async (_what, token, code, words) => {
    const refusal = await refusalOf(signedIn(token));
    expect(refusal).toMatchObject(withCode(code, words));
  });

  test('whose claims name nobody is sent to an operator: no other token helps', async () => {
    const refusal = await refusalOf(signedIn(async (nonce) => await idToken(nonce, 0, ' ')));
    expect(refusal).toMatchObject(
      withCode('SIGN_IN_REQUIRED', 'no usable claim for id (oidc.claims). Ask whoever runs'),
    );
    expect(refusal.message).not.toContain('Bearer');
  });

  test('whose answer has no ID token is told so, by an error that does not hold the other tokens', async () => {
    const answer = { access_token: 'canary-access', token_type: 'Bearer' };
    const refusal = await refusalOf(signedIn(answering(200, answer)));
    expect(refusal).toMatchObject(withCode('SIGN_IN_REQUIRED', '(OAUTH_INVALID_RESPONSE)'));
    expect(inspect(refusal, { depth: 10 })).not.toContain('canary');
  });

  test.each([
    [{ error: 'access_denied', error_description: 'no' }, 'did not let you sign in (access_denied). Sign in again'],
    [{ error: 'of their own: <b>' }, 'did not let you sign in (error). Sign in again'],
    [{ error: 'invalid_scope' }, 'did not let you sign in (invalid_scope). Sign in again; if that does not help, ask'],
    [{ state: 'another', code: 'c' }, 'did not let you sign in (OAUTH_INVALID_RESPONSE). Sign in again'],
  ])('sent back with %j is told the word of the provider, and whom to ask', async (back, words) => {
    const refusal = await refusalOf(signedIn(async (nonce) => await idToken(nonce), back));
    expect(refusal).toMatchObject(withCode('SIGN_IN_REQUIRED', words));
  });
});

/** Comes back from the provider with a code. @returns what is said where it does not know the code */
async function refusedCode(sessions: Sessions): Promise<string> {
  const { location, cookie } = await sessions.begin('/');
  const query = new URLSearchParams({ state: new URL(location).searchParams.get('state') ?? '', code: 'c' });
  return await codeOf(sessions.finish(query, cookie.value));
}

/** Answers as the provider's metadata, with the ways in which it takes the secret of a client. */
function providerTaking(methods: readonly string[] | undefined): Response {
  return Response.json({
    issuer: ISSUER,
    authorization_endpoint: `${ISSUER}/authorize`,
    token_endpoint: `${ISSUER}/token`,
    token_endpoint_auth_methods_supported: methods,
  });
}

test.each([
  ['where the provider states no method', undefined, true],
  ['where it states only that', ['private_key_jwt', 'client_secret_basic'], true],
  ['unless it takes it in the body', ['client_secret_basic', 'client_secret_post'], false],
])('the secret of the gateway goes by HTTP Basic %s', async (_where, methods, isBasic) => {
  const sent: { readonly header: string | null; readonly body: URLSearchParams }[] = [];
  const ask: AskProvider = async (url, init) => {
    if (!url.endsWith('/token')) return providerTaking(methods);
    const request = new Request(url, init);
    sent.push({ header: request.headers.get('authorization'), body: new URLSearchParams(await request.text()) });
    return Response.json({ error: 'invalid_grant' }, { status: 400 });
  };
  const sessions = sessionsOf({ signIn: { ...SIGN_IN, clientSecret: 's3cret' } }, ask);
  expect(await refusedCode(sessions)).toBe('SIGN_IN_REQUIRED');
  const basic = `Basic ${Buffer.from('gateway:s3cret').toString('base64')}`;
  expect(sent.map(({ header }) => header)).toEqual([isBasic ? basic : null]);
  expect(sent[0]?.body.get('client_secret')).toBe(isBasic ? null : 's3cret');
});

test('a provider that states both ways and knows the gateway by HTTP Basic alone is asked so, at once from then on', async () => {
  const sent: boolean[] = [];
  const ask: AskProvider = async (url, init) => {
    if (!url.endsWith('/token')) return providerTaking(['client_secret_basic', 'client_secret_post']);
    const isBasic = new Request(url, init).headers.has('authorization');
    sent.push(isBasic);
    return isBasic
      ? Response.json({ error: 'invalid_grant' }, { status: 400 })
      : Response.json({ error: 'invalid_client' }, { status: 401 });
  };
  const sessions = sessionsOf({ signIn: { ...SIGN_IN, clientSecret: 's3cret' } }, ask);
  for (const ways of [[false, true], [true]]) {
    sent.length = 0;
    // The client is known, and the code is not.
    expect(await refusedCode(sessions)).toBe('SIGN_IN_REQUIRED');
    expect(sent).toEqual(ways);
  }
});

test.each([
  ['https://countersign.example.com', true],
  ['http://127.0.0.1:8235', true],
  ['http://localhost:8235/', true],
  ['http://[::1]:8235', true],
  ['http://countersign.example.com', false],
  ['http://localhost.example.com', false],
  ['http://localhost@evil.example', false],
])('browsers keep sessions of %s: %s', (publicUrl, isKept) => {
  const read = GatewayConfig.safeParse({ signIn: { publicUrl, clientId: 'gateway' } });
  expect(read.success).toBe(isKept);
});
